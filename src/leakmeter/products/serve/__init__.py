"""`leakmeter serve`: a local web page over the library; `app` makes it, `access` guards it, `queue` does the work."""
