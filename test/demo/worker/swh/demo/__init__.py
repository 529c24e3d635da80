"""The demo's lister and loader: small, but on the real task class, scheduler
client, data model and journal writer of Software Heritage."""
