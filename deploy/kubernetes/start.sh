#!/bin/sh
# Starts the broker of a pod: as a member of the network, if it is one; else it joins a broker that answers. The first pod
# makes the network if nobody answers. So a pod that lost its volume never makes a second network beside the first.
#
# PODS are the names of all of them, SERVICE is the headless service with its namespace, POD is this one.
set -eu

folder=/var/lib/famulus/broker
settings=/etc/famulus/broker.toml
secrets=/run/secrets/famulus

answers() { python -c 'import socket, sys; socket.create_connection((sys.argv[1], 7103), 2).close()' "$1" 2>/dev/null; }

if [ -e "$folder/network.json" ]; then
    exec famulus broker --folder "$folder" --config "$settings"
fi
for pod in $PODS; do
    if [ "$pod" != "$POD" ] && answers "$pod.$SERVICE"; then
        exec famulus broker --folder "$folder" --config "$settings" --join "$pod.$SERVICE:7103" --secret-file "$secrets/join.secret" \
            --identity "$POD" --family main --advertised-host "$POD.$SERVICE"
    fi
done
if [ "$POD" != "${PODS%% *}" ]; then
    echo "there is no broker yet whose network $POD could join; trying again" >&2
    exit 1
fi
FAMULUS_ADMIN_PASSWORD=$(cat "$secrets/admin.password")
export FAMULUS_ADMIN_PASSWORD
# Everybody needs a key: what a sidecar or kubectl port-forward lets in comes from the pod itself.
famulus init "$folder" --identity "$POD" --family main --admin admin --host "$POD.$SERVICE" --secret-file "$secrets/join.secret" \
    --keys all
unset FAMULUS_ADMIN_PASSWORD
# The others have the secret.
rm -f "$folder.invitation"
exec famulus broker --folder "$folder" --config "$settings"
