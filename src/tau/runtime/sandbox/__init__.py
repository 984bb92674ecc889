"""The sandbox: policy, launcher, Landlock, seccomp, file access from inside."""
