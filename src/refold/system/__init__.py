"""What is asked of the operating system, safely: files that are really files, and forks of the
process."""
