#!/usr/bin/env bash
# install.sh FOLDER: AccelForge, pinned, in an environment of its own; FOLDER/run MACHINE LAYER starts it.
# It needs Python 3.12 or newer and Graphviz: where the system has none, a Debian root is made (as root).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
python=$(command -v python3.14 python3.13 python3.12 | head -1 || true)
if [ -n "$python" ] && command -v dot > /dev/null; then
  "$python" -m venv "$folder/venv"
  "$folder/venv/bin/pip" install --quiet accelforge==1.0.467
  start="$folder/venv/bin/python $here"
else
  root=$folder/root
  debootstrap --variant=minbase --include=python3,python3-venv,graphviz,ca-certificates trixie "$root" \
    > /dev/null
  mkdir -p "$root/peers"
  cp /etc/resolv.conf "$root/etc/"
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  mount --bind /dev "$root/dev"
  mount -t proc proc "$root/proc"
  chroot "$root" python3 -m venv /venv
  chroot "$root" env PIP_CERT=/etc/ssl/certs/ca-certificates.crt /venv/bin/pip install --quiet accelforge==1.0.467
  cp -r "$here/accelforge" "$here/accelforge_run.py" "$root/peers/"
  start="chroot $root /venv/bin/python /peers"
fi
place=${start##* }
cat > "$folder/run" << END
#!/bin/sh
ulimit -t \${SECONDS_OF_PROCESSOR:-150}
exec ${start% *} $place/accelforge_run.py $place/accelforge/\$1.yaml $place/accelforge/\$2.yaml
END
chmod +x "$folder/run"
echo "$folder/run eyeriss gemm-16b"
