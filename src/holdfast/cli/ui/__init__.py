"""`holdfast ui`: a page that shows what is kept, what it saved, and what each job recovered."""
