"""What the library needs of the machine: files, folders, threads, memory, a terminal."""
