# Runs a server of Debian's PostgreSQL, which refuses to be root's: in a user namespace if root
# runs this.
PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
[ "$(id -u)" != 0 ] || set -- unshare --user --map-user=1000 --map-group=1000 "$@"
exec "$@"
