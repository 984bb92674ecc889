"""The command lines that jobs send. Those that wait for their response have the id "q"."""

from __future__ import annotations

GET_STATE = b'{"id":"q","type":"get_state"}\n'
GET_MESSAGES = b'{"id":"q","type":"get_messages"}\n'
GET_FORKS = b'{"id":"q","type":"get_fork_messages"}\n'
GET_STATS = b'{"id":"q","type":"get_session_stats"}\n'
FORK = b'{"id":"q","type":"fork","entryId":"%b"}\n'
BASH = b'{"id":"q","type":"bash","command":"%b"}\n'
PROMPT = b'{"id":"p","type":"prompt","message":"go on"}\n'
