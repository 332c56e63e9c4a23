//! The users of the processes, as far as this process may change to them.

use sluice_launch::is_root;
use sluice_settings::{Settings, User};

use rustix::process::geteuid;

/// The message when a server is started as root without consent.
pub(crate) const ROOT_REFUSED: &str = "running as root is refused, because every script would run as root too: name a user for the server, user = \"www-data\" in \
                            [server] (docs/guides/users.md), start Sluice as an ordinary user \
                            (runuser -u www-data -- sluice …; for ports below 1024 the user needs CAP_NET_BIND_SERVICE, see docs/guides/deploy.md), or give \
                            --allow-root";

/// The same of `sluice serve` and `sluice demo`, which have no configuration that could name a user.
pub(crate) const ROOT_REFUSED_WITHOUT_CONFIGURATION: &str = "running as root is refused, because every script would run as root too: start it as an ordinary user, as in \
                            runuser -u www-data -- sluice serve …, or give --allow-root";

/// Checks that this process may run a server as the users of its settings. Fails if it is root and no user is named, or not root and another one is.
pub(crate) fn check(settings: &Settings, allow_root: bool) -> Result<(), String> {
    if is_root() {
        return match &settings.users.server {
            None if !allow_root => Err(ROOT_REFUSED.to_owned()),
            _ => Ok(()),
        };
    }
    let own = geteuid().as_raw();
    let scripts = settings.script_users();
    let wished = [
        ("user", &settings.users.server),
        ("script_user", &settings.users.scripts),
    ];
    let wished = wished.into_iter().filter_map(|(key, user)| Some((key, user.as_ref()?)));
    let wished = wished.chain(scripts.named.iter().map(|user| ("user of a script", user)));
    for (key, User { name, credentials, .. }) in wished {
        if credentials.uid != own {
            return Err(format!(
                "{key} = \"{name}\": only root can change users, and this is user {own}: start the server as root, or remove this; for a service: let its \
                 unit start it as root, then \"systemctl restart sluice\""
            ));
        }
    }
    Ok(())
}
