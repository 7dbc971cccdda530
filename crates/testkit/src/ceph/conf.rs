//! The files that tell the daemons and the clients of one another.

use std::fmt::Write;
use std::net::SocketAddrV4;
use std::path::Path;

use super::OSD_BYTES;

/// The configuration of all daemons and clients. Whatever a daemon writes is in `folder`.
pub(super) fn configuration(folder: &Path, fsid: &str, monitor: SocketAddrV4) -> String {
    let (folder, address) = (folder.display(), monitor.ip());
    format!(
        "[global]
fsid = {fsid}
mon_host = [v2:{monitor}]
auth_cluster_required = cephx
auth_service_required = cephx
auth_client_required = cephx
keyring = {folder}/keyring
run_dir = {folder}
crash_dir = {folder}
# One machine has all copies.
osd_crush_chooseleaf_type = 0
osd_pool_default_pg_autoscale_mode = off
# Of osd_heartbeat_grace; for so long, 9 s here, objects wait after a server died, since it might still
# answer reads.
osd_pool_default_read_lease_ratio = 0.0001

[mon]
public_addr = {address}
mon_data = {folder}/$name
mon_cluster_log_file = {folder}/cluster.log
log_file = {folder}/$name.log
admin_socket = {folder}/$name.asok
mon_allow_pool_delete = true
mon_data_avail_crit = 1
auth_allow_insecure_global_id_reclaim = false
# A slow or paused server is not a dead one.
mon_osd_report_timeout = 86400
osd_heartbeat_grace = 86400

[mgr]
public_addr = {address}
mgr_data = {folder}/$name
log_file = {folder}/$name.log
admin_socket = {folder}/$name.asok

[osd]
public_addr = {address}
cluster_addr = {address}
osd_data = {folder}/$name
log_file = {folder}/$name.log
admin_socket = {folder}/$name.asok
osd_heartbeat_grace = 86400
bluestore_block_size = {OSD_BYTES}
bluestore_cache_autotune = false
bluestore_cache_size = 33554432
"
    )
}

/// The keys of all daemons and of the user `admin`, which are one and the same.
pub(super) fn keyring(key: &str) -> String {
    let mut text = String::new();
    let mut add = |name: &str, capabilities: &[(&str, &str)]| {
        writeln!(text, "[{name}]\nkey = {key}").expect("a string takes it");
        for (of, what) in capabilities {
            writeln!(text, "caps {of} = \"{what}\"").expect("a string takes it");
        }
    };
    add("mon.", &[("mon", "allow *")]);
    add("client.admin", &[("mon", "allow *"), ("osd", "allow *"), ("mgr", "allow *")]);
    add("mgr.x", &[("mon", "allow profile mgr"), ("osd", "allow *")]);
    for number in 0..3 {
        let profile = "allow profile osd";
        add(&format!("osd.{number}"), &[("mon", profile), ("mgr", profile), ("osd", "allow *")]);
    }
    text
}
