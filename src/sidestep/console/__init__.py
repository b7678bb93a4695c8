"""How does a person see it? A web page over a folder of tables and logs, and the JSON API behind it."""
