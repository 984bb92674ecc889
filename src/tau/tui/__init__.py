"""The interactive terminal: connects a session (SessionHandle) and a terminal to the values of `tau.screen`."""
