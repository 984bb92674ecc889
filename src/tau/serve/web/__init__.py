"""HTTP and WebSocket: the ASGI application, and the server that runs it inside `tau serve`."""
