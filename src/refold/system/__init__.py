"""Safe use of the operating system: files on disk, files inside a folder, and process forks."""
