"""Faults that can be ordered: what a test needs to see what the program does when the world fails it.

    disk          a disk whose n-th call fails, in this process
    injected      the real program, whose n-th system call on a file fails (by strace)
    clients       clients that are slow, stop reading, or are gone
    processes     who lives below a process, and who is left of them
    mutations     bytes and JSON values with something wrong in them
    sessions      session files with something wrong in them
    streams       answers of model servers with something wrong in them; a network and a clock that tests hold
    settings      files beside the sessions with something wrong in them
    wrong_fields  every field of every command with what does not belong there
    corpus        inputs that failed once, and are tried again for ever

Where a fault is a matter of luck there are dice with a seed, and the seed is told.
"""
