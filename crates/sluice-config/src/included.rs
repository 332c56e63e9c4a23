//! An included file: sites, and routes for sites that exist without it.
//!
//! Sites of all files are read before the routes, so a route finds its site whatever the order of the files. Routes of included files follow those of their
//! site, in the order of the files: what the administrator wrote in the main file is tried first. Included files include no others, so there is no loop.

use toml::de::DeTable;

use super::blocks::Blocks;
use super::description::Described;
use super::document::{Document, Lack, decode};
use super::file_kind::FileKind;
use super::include::IncludeFile;
use super::key::{Key, Section, set};
use super::root::{self, ROOT, Root};
use super::route::{self, ROUTE};
use super::route_lint::SiteRoot;
use super::site;
use super::suggest;
use super::syntax;
use super::table::Table;

/// The keys of an included file. All but `host` and `route` are described in the section of the main file, too.
pub(super) static INCLUDED: Section<Root> = Section {
    title: "an included file",
    keys: &[
        Key::text("host", |root, host, _| {
            set(&mut root.route_host, site::parse_host(&host)?)
        }),
        root::SITE_KEY,
        Key::tables("route", &ROUTE, |root, table| {
            let site = root.route_site.map(|number| root.sites.site(number));
            let path = site.and_then(|site| site.settings.root.as_deref());
            let site_root = site.map_or(SiteRoot::Absent, |site| site.root);
            let route = ROUTE.read(table, route::Draft::new(site_root, path, table));
            if let Some(number) = root.route_site {
                root.sites.add_route(number, route, table);
            }
        }),
        root::BLOCKS_KEY,
    ],
};

/// Reads the files that the main file includes.
pub(super) fn read(root: &mut Root, main: &Document<'_>, main_blocks: &Blocks<'_>) {
    let files = std::mem::take(&mut root.include);
    let texts: Vec<(IncludeFile, String)> = files.into_iter().filter_map(|file| text_of(file, main)).collect();
    let documents: Vec<Document<'_>> = texts
        .iter()
        .map(|(file, text)| {
            main.include(
                &INCLUDED,
                &file.name,
                text,
                file.path.parent().unwrap_or(main.directory),
            )
        })
        .collect();
    let parsed: Vec<(&Document<'_>, DeTable<'_>)> = documents
        .iter()
        .filter_map(|document| {
            let mut table = syntax::parse(document)?;
            let blocks = Blocks::replace(&mut table, document, Some(main_blocks));
            root.settings.warnings.extend(blocks.unused(document));
            Some((document, table))
        })
        .collect();
    let tables: Vec<Table<'_>> = parsed
        .iter()
        .map(|(document, values)| Table::whole(document, values))
        .collect();
    for table in &tables {
        check_names(table);
        INCLUDED.read_key("blocks", table, root);
        if !table.is_table("site") {
            INCLUDED.read_key("site", table, root);
        }
    }
    for table in &tables {
        (root.route_host, root.route_site) = (None, None);
        INCLUDED.read_key("host", table, root);
        find_site(root, table);
        INCLUDED.read_key("route", table, root);
    }
    root.settings.config_files = texts.into_iter().map(|(file, _)| file.path).collect();
}

/// The text of a file. `None` if it cannot be read; that has been reported. A directory that a wildcard has found holds no configuration; what another
/// file would say may protect a site.
fn text_of(file: IncludeFile, main: &Document<'_>) -> Option<(IncludeFile, String)> {
    let kind = main.files.kind(&file.path);
    let is_optional = file.is_matched && kind == FileKind::Directory;
    let refusal = match kind {
        // Opening a FIFO would wait for its writer.
        FileKind::Directory | FileKind::Other => "is not a regular file".to_owned(),
        FileKind::Missing(reason) | FileKind::Denied(reason) => format!("cannot be read: {reason}"),
        FileKind::File | FileKind::Program => match main.files.read(&file.path).map(decode) {
            Ok(Ok(text)) => return Some((file, text)),
            Ok(Err(line)) => format!("line {line} is not UTF-8 text: save the file in UTF-8"),
            Err(reason) => reason,
        },
    };
    let message = format!("include: {} {refusal}", file.name);
    match is_optional {
        true => main.report_lack(Lack::Skipped, file.line, message),
        false => main.report(file.line, message),
    }
    None
}

/// Reports keys that an included file cannot have, and `[[site.route]]` without a `[[site]]` above it, which TOML reads as one table `site`.
fn check_names(table: &Table<'_>) {
    let document = table.document;
    let has = |keys: &dyn Described, name: &str| keys.keys().iter().any(|key| key.name == name);
    for key in table.values.keys() {
        let line = document.line(key.span().start);
        match key.get_ref().as_ref() {
            "include" => document.report(
                line,
                "include: an included file cannot include others: name them in the main file",
            ),
            name if has(&INCLUDED, name) => {}
            name if has(&ROOT, name) => document.report(
                line,
                format!("\"{name}\" belongs in the main file: an included file has only [[site]], [[route]], [blocks.NAME] and host"),
            ),
            name => document.report(line, suggest::unknown_key(name, &INCLUDED, &INCLUDED)),
        }
    }
    if table.is_table("site") {
        let message = "a route for a site of another file is written [[route]]; host = \"example.org\" at the top of the file says for \
                       which site";
        document.report(table.line_of("site"), message);
    }
}

/// Finds the site of the routes.
fn find_site(root: &mut Root, table: &Table<'_>) {
    if !table.has("route") {
        table.refuse(
            "host",
            "is for the routes of this file, and it has none: add [[route]], or remove this",
        );
        return;
    }
    root.route_site = root.sites.number_of(root.route_host.as_deref());
    let is_disabled = root
        .route_host
        .as_deref()
        .is_some_and(|host| root.sites.is_disabled(host));
    if root.route_site.is_none() && root.route_host.is_some() && !is_disabled {
        table.refuse(
            "host",
            "no site has this host: write one of a site's hosts, or add a [[site]] with it",
        );
    }
}
