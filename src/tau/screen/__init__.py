"""What the terminal interface shows, as values: keys, text cells, styled lines, the editor, cards, the painter.

Pure: bytes, events and times come in as arguments; lines, states and bytes come out. `tau.tui` connects it to a
terminal and a session.
"""
