//! The program's part of `sluice rate`: a server of its own, and the file that keeps the rating.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::Path;

use clap::Parser;
use sluice_report::machine::Rating;
use sluice_server::Server;
use sluice_tools::control::place;
use sluice_tools::rate::{Exercising, Program};

use crate::arguments::{Arguments, Command};

pub(crate) struct ThisProgram;

impl Program for ThisProgram {
    fn workers(&self) -> NonZeroUsize {
        sluice_config::default_workers()
    }

    fn serve(&self, site: &Path, access_log: &Path, exercise: &mut Exercising<'_>) -> Result<(), String> {
        let words = ["sluice", "serve", "--listen", "127.0.0.1:0", "--access-log"].map(OsString::from);
        let line = words.into_iter().chain([access_log.into(), site.into()]);
        let Command::Serve(serve) = Arguments::try_parse_from(line)
            .map_err(|error| error.to_string())?
            .command
        else {
            return Err("not the command line of a server".to_owned());
        };
        let server = Server::start(&serve.settings()?).map_err(|error| error.to_string())?;
        let address = server.addresses().into_iter().next();
        let address = address.ok_or_else(|| "the server does not listen".to_owned());
        let done = address.and_then(|address| exercise(&address));
        server.drain().end();
        server.join();
        done
    }

    fn keep(&self, rating: &Rating) -> Result<(), String> {
        place::create(&place::directory())?;
        let text = serde_json::to_vec(rating).map_err(|error| error.to_string())?;
        std::fs::write(place::rating_file(), text).map_err(|error| error.to_string())
    }
}
