package holdfast;

import java.lang.ref.Reference;
import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;
import java.util.IdentityHashMap;
import java.util.Map;

/** Says which objects nobody holds any more. */
public final class CollectedObjects {
    static final long WAIT_MS = 50;

    final ReferenceQueue collected = new ReferenceQueue();
    final Map names = new IdentityHashMap();

    public synchronized void watch(Object object, String name) {
        names.put(new WeakReference(object, collected), name);
    }

    /**
     * The names of those that are gone since the last time, each with a space after it.
     *
     * @param thorough whether the garbage is collected first, as an idle program may never do it
     */
    public synchronized String gone(boolean thorough) throws InterruptedException {
        if (thorough) {
            System.gc();
        }
        StringBuilder said = new StringBuilder();
        while (true) {
            // What has been collected is enqueued by a thread of its own.
            Reference reference = thorough ? collected.remove(WAIT_MS) : collected.poll();
            if (reference == null) {
                return said.toString();
            }
            said.append(names.remove(reference)).append(' ');
        }
    }
}
