"""The documentation as a site: the pages of docs and the reference, in the dress of the dashboard, with a search.

`outline` says which pages there are, `reference` writes those of the API, `markdown` reads one, `frame` puts it into
the page that a browser shows, and `build` does all that and finds what is broken. The pages need no network, nor a
server.
"""
