# The functions of the compose file's image for Python packages. There are none here.

setup_pip() { swh --versions; }
