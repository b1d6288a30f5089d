// Draws a graph, and makes the frame that shows it as high as that.
"use strict";

mermaid.initialize({ startOnLoad: false, securityLevel: "strict", theme: "neutral", maxEdges: 5000 });
mermaid.run().finally(() => {
  if (window.frameElement) window.frameElement.style.height = `${document.documentElement.scrollHeight + 16}px`;
});
