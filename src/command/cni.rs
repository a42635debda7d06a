//! The CNI plug-in: the same binary, called by containerd under the plug-in's name.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use quorate_node::cni::plugin::plugin_main;
use quorate_node::config::CNI_PLUGIN;

/// Configurations are small; more is not read.
const MAX_STDIN_BYTES: u64 = 1 << 20;
const PLUGIN_NAMES: [&str; 2] = [CNI_PLUGIN, "loopback"];

fn own_name() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    Path::new(&path).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

pub(crate) fn is_called_as_plugin() -> bool {
    PLUGIN_NAMES.contains(&own_name().as_str())
}

pub(crate) fn run() -> ExitCode {
    let name = if is_called_as_plugin() { own_name() } else { CNI_PLUGIN.to_owned() };
    let mut configuration = Vec::new();
    let environment = std::env::vars().filter(|(key, _)| key.starts_with("CNI_")).collect();
    let output = match std::io::stdin().take(MAX_STDIN_BYTES).read_to_end(&mut configuration) {
        Ok(_length) => plugin_main(&name, &environment, &configuration),
        // The plug-in refuses an empty configuration in the form that its caller understands.
        Err(_unreadable) => plugin_main(&name, &environment, &[]),
    };
    super::print(&output.stdout);
    ExitCode::from(u8::try_from(output.exit_code).unwrap_or(1))
}
