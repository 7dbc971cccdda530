#!/bin/busybox sh
# The first process of the guest. Backs up a FAT file system twice, restores the second snapshot and
# powers off. The kernel's command line sets `modules` and `now`, an even second.
set -eu
export PATH=/bin HOME=/root
step() { echo "GUEST: $*"; }
trap 'step "ended with $?"; poweroff -f' EXIT

/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
for module in $(echo "$modules" | tr , ' '); do
    insmod "/modules/$module.ko"
done
date -s "@$now" > /dev/null
mkdir -p /root
mount -t vfat /dev/vda /mnt

# Each file is named by the time that it is given. One has that of the step before the backup begins.
write_files() {
    for second in $(seq $((now - 8)) 2 $((now + 120))); do
        printf '%s' "$1" > "/mnt/$second"
        touch -d "@$second" "/mnt/$second"
    done
}

backup() {
    onefold backup --repo /repo --json /mnt > /said
    step "backup $(grep '"summary"' /said)"
}

onefold init --no-encryption /repo
write_files before
backup
write_files after.
backup
onefold restore --repo /repo --target /restored latest
for file in /restored/*; do
    step "restored ${file##*/} $(cat "$file")"
done
