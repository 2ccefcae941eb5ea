"""One DML function while it is rendered; authors of operators see of it what `api.node_view` gives them."""
