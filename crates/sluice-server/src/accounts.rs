//! Users and groups of this machine, for the configuration.

pub use sluice_launch::{Account, account_by_name, account_by_number, group_by_name};
