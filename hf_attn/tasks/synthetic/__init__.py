"""Tasks whose examples are computed: a file each."""
