# Runs a server that refuses to be root's, in a user namespace if root runs this.
[ "$(id -u)" != 0 ] || set -- unshare --user --map-user=1000 --map-group=1000 "$@"
exec "$@"
