#!/usr/bin/env bash
# install.sh FOLDER: AccelForge, pinned, in an environment of its own; FOLDER/run MACHINE LAYER starts it.
# It needs Python 3.12 or newer (the system's, or pyenv's), and g++ where glibc is older than 2.38: where there
# is no such Python, a Debian root is made (as root).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
python=
# pyenv has a command for every version, which starts only those that are switched on.
for candidate in python3.14 python3.13 python3.12 python3 "$HOME"/.pyenv/versions/3.1[2-4].*/bin/python; do
  if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' 2> /dev/null; then
    python=$candidate
    break
  fi
done
if [ -n "$python" ]; then
  "$python" -m venv "$folder/venv"
  "$folder/venv/bin/pip" install --quiet accelforge==1.0.467 -c "$here/constraints.txt"
  start="$folder/venv/bin/python $here"
  cacti=$("$folder/venv/bin/python" -c 'import hwcomponents_cacti as c, os; print(os.path.dirname(c.__file__))')/cacti
  if ldd "$cacti/cacti" 2>&1 | grep -q 'not found'; then
    # The wheel's needs glibc 2.38; its sources come along, and compile in some two minutes.
    rm -rf "$cacti"/obj_dbg/*.o "$cacti/obj_dbg/cacti"
    make -C "$cacti" dbg > "$folder/cacti.log" 2>&1
  fi
  if ! command -v dot > /dev/null; then
    # Its answer is lost where it cannot draw it; nobody looks at the picture here.
    printf '#!/bin/sh\necho "<svg xmlns=\"http://www.w3.org/2000/svg\"/>"\n' > "$folder/venv/bin/dot"
    chmod +x "$folder/venv/bin/dot"
  fi
else
  root=$folder/root
  debootstrap --variant=minbase --include=python3,python3-venv,graphviz,ca-certificates trixie "$root" \
    > /dev/null
  mkdir -p "$root/peers"
  cp -r "$here/accelforge" "$here/accelforge_run.py" "$here/constraints.txt" "$root/peers/"
  cp /etc/resolv.conf "$root/etc/"
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  mount --bind /dev "$root/dev"
  mount -t proc proc "$root/proc"
  chroot "$root" python3 -m venv /venv
  chroot "$root" env PIP_CERT=/etc/ssl/certs/ca-certificates.crt /venv/bin/pip install --quiet accelforge==1.0.467 -c /peers/constraints.txt
  start="chroot $root /venv/bin/python /peers"
fi
place=${start##* }
cat > "$folder/run" << END
#!/bin/sh
PATH=$folder/venv/bin:\$PATH
cd $folder
ulimit -t \${SECONDS_OF_PROCESSOR:-150}
exec ${start% *} $place/accelforge_run.py $place/accelforge/\$1.yaml $place/accelforge/\$2.yaml
END
chmod +x "$folder/run"
echo "$folder/run eyeriss gemm-16b"
