#!/bin/busybox sh
# The first process of the guest. Uses two disks alike, the first by virtio, the second by the
# kernel's own client of NBD, and powers off. The kernel's command line sets `modules`, `port` and
# `mib`, how long the file systems are.
set -eu
export PATH=/bin
step() { echo "GUEST: $*"; }
trap 'step "ended with $?"; poweroff -f' EXIT

/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
for module in $(echo "$modules" | tr , ' '); do
    insmod "/modules/$module.ko"
done

# What is written beside a file system. Offsets are from its end, in MiB but for the sectors.
write_raw() {
    disk=$1
    dd if=/kept of="$disk" bs=64k seek=$((mib * 16)) conv=notrunc,fsync status=none
    blkdiscard -o $(((mib + 1) << 20)) -l $((1 << 20)) "$disk"
    # three sectors that begin at no block
    dd if=/kept of="$disk" bs=512 count=3 seek=$(((mib + 5) * 2048 + 1)) oflag=direct \
        conv=notrunc status=none
    # Each CPU has a queue of its own, and of the kernel's client a connection.
    taskset 1 dd if=/kept of="$disk" bs=64k count=32 seek=$(((mib + 6) * 16)) oflag=direct \
        conv=notrunc status=none &
    first=$!
    taskset 2 dd if=/kept of="$disk" bs=64k count=32 skip=32 seek=$(((mib + 8) * 16)) \
        oflag=direct conv=notrunc status=none
    wait "$first"
    # one flush for both
    taskset 2 dd if=/dev/null of="$disk" conv=notrunc,fsync status=none
}

write_files() {
    disk=$1
    mkfs.ext4 -q -b "$2" "$disk" "${mib}M"
    mount -t ext4 "$disk" /mnt
    mkdir /mnt/folder
    cp /kept /mnt/copy
    cp /kept /mnt/folder/copy
    cp /doomed /mnt/doomed
    sync
    rm /mnt/doomed
    sync
    step "$(fstrim -v /mnt)"
    umount /mnt
}

read_files() {
    disk=$1
    e2fsck -fn "$disk" > /e2fsck 2>&1 || { cat /e2fsck; return 1; }
    mount -t ext4 -o ro "$disk" /mnt
    cmp /kept /mnt/copy
    cmp /kept /mnt/folder/copy
    test ! -e /mnt/doomed
    umount /mnt
}

tell() {
    cd "/sys/block/$1"
    step "$1 has $(cat size) sectors, $(ls mq | wc -l) queues," \
        "logical blocks of $(cat queue/logical_block_size)," \
        "physical blocks of $(cat queue/physical_block_size)," \
        "discards by $(cat queue/discard_granularity) up to $(cat queue/discard_max_bytes)," \
        "requests up to $(cat queue/max_sectors_kb) KiB," \
        "cache $(cat queue/write_cache), FUA $(cat queue/fua)"
    cd /
}

tell vda
write_raw /dev/vda
write_files /dev/vda 1024
echo 3 > /proc/sys/vm/drop_caches
read_files /dev/vda
step "virtio is done"

ip address add 10.0.2.15/24 dev eth0
ip link set eth0 up
nbd-client -C 2 -N kernel 10.0.2.2 "$port" /dev/nbd0
tell nbd0
step "connections: $(netstat -tn | grep -c ":$port.*ESTABLISHED")"
write_raw /dev/nbd0
write_files /dev/nbd0 4096
nbd-client -d /dev/nbd0
# again, with the volume's blocks
nbd-client -b 4096 -R -N kernel 10.0.2.2 "$port" /dev/nbd0
tell nbd0
read_files /dev/nbd0
nbd-client -d /dev/nbd0
step "the kernel's client is done"
