"""The page of `holdfast ui` among very many results and jobs."""
