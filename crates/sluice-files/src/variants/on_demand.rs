//! PendingVariant compressed forms of files: by a thread that may take its time, once for all who want one, for the cache.
//!
//! Not here: whether a request gets such a form at all (`encodings`), and the compressing (`write::encode`).

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{HeaderMap, Method, Response};
use sluice_http::body::ResponseBody;
use sluice_http::encoding::Encoding;
use sluice_http::encoding::encoder::{Effort, encode};
use sluice_http::fault::Fault;
use sluice_settings::Precompressed;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::body as file_body;
use crate::cache::{Cache, Cached, Key};
use crate::file::{Files, Found};
use crate::representation::Representation;
use crate::response::respond;

/// The first request for a file up to this many bytes waits for its form, so that who tries it with curl sees it. That of a larger
/// one is made behind the back of a request that gets the file as it is: it would wait for longer than it saves.
const AWAITED_BYTES_MAX: u64 = 1 << 20;

/// Longest wait for a form. Over it the file is sent as it is.
const WAIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Forms that are made or wait for it. Over it files are sent as they are, and their forms are made for a later request.
const MAKINGS_MAX: usize = 256;

/// Forms that are made at once, by all workers together: each keeps a processor busy.
static TURNS: Semaphore = Semaphore::const_new(4);

impl Files<'_> {
    /// A form that the server makes: from the cache, or from a thread that makes it now.
    pub(super) fn made(
        &self,
        cache: &Arc<Cache>,
        name: &str,
        original: Original,
        representation: &Representation,
        encoding: Encoding,
    ) -> Made {
        let form_name = form_name(name, encoding);
        let kept = || {
            let form = cache.peek(self.directory, &form_name);
            form.filter(|form| original.is_behind(form))
        };
        if let Some(form) = kept() {
            return Made::There(form);
        }
        let Ok(runtime) = Handle::try_current() else {
            return Made::Not;
        };
        if !self.keeps(cache, name, &original) {
            return Made::Not;
        }
        let is_awaited = original.bytes() <= AWAITED_BYTES_MAX;
        let key = Key::new(self.directory, &form_name);
        let (told, form) = watch::channel(None);
        let form = match cache.makings.begin(&key, form, kept) {
            Begun::Here(form) => {
                let order = Order {
                    cache: Arc::clone(cache),
                    key,
                    original,
                    representation: representation.made(encoding),
                    encoding,
                    told,
                };
                runtime.spawn(order.carry_out());
                form
            }
            Begun::Elsewhere(form) => form,
            Begun::Done(form) => return Made::There(form),
            Begun::Not => return Made::Not,
        };
        if is_awaited { Made::Awaited(form) } else { Made::Not }
    }

    /// Whether the cache holds the file, or will: of what it does not hold it keeps no form either.
    fn keeps(&self, cache: &Cache, name: &str, original: &Original) -> bool {
        match original {
            Original::Kept(cached) => {
                let held = cache.peek(self.directory, name);
                held.is_some_and(|held| Arc::ptr_eq(&held, cached))
            }
            Original::Open(_, metadata) => cache.would_take(metadata),
        }
    }
}

/// The name of a form's entry in the cache; no file has a NUL in its name.
fn form_name(name: &str, encoding: Encoding) -> String {
    format!("{name}\0{encoding}")
}

/// What became of the wish for a form.
pub(super) enum Made {
    There(Arc<Cached>),
    Awaited(Awaited),
    Not,
}

/// A form that somebody makes: nothing yet, then the form, or that there is none.
pub(super) type Awaited = watch::Receiver<Option<Option<Arc<Cached>>>>;

/// Forms that are being made.
#[derive(Default)]
pub(crate) struct InFlight(Mutex<HashMap<Key, Awaited>>);

/// Whether the making of a form begins.
enum Begun {
    /// With this request, which must see to it.
    Here(Awaited),
    /// It has, with another.
    Elsewhere(Awaited),
    /// It has ended meanwhile.
    Done(Arc<Cached>),
    /// There are too many.
    Not,
}

impl InFlight {
    /// Notes that a form is being made, unless it is, or was a moment ago, which `kept` tells.
    fn begin(&self, key: &Key, form: Awaited, kept: impl Fn() -> Option<Arc<Cached>>) -> Begun {
        let mut makings = self.lock();
        if let Some(form) = makings.get(key) {
            return Begun::Elsewhere(form.clone());
        }
        if let Some(form) = kept() {
            return Begun::Done(form);
        }
        if makings.len() >= MAKINGS_MAX {
            return Begun::Not;
        }
        makings.insert(key.clone(), form.clone());
        Begun::Here(form)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<Key, Awaited>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A response that waits for a form.
pub struct PendingVariant {
    name: String,
    original: Found,
    form: Awaited,
}

impl PendingVariant {
    /// Waits for a form of what was found under a name.
    pub(super) fn new(name: &str, original: Found, form: Awaited) -> Box<PendingVariant> {
        Box::new(PendingVariant {
            name: name.to_owned(),
            original,
            form,
        })
    }

    /// The response, with the file as it is where the form does not come.
    pub async fn respond(
        mut self: Box<Self>,
        method: &Method,
        fields: &HeaderMap,
    ) -> Result<Response<ResponseBody>, Fault> {
        let form = match timeout(WAIT_TIMEOUT, self.form.wait_for(Option::is_some)).await {
            Ok(Ok(told)) => told.clone().flatten(),
            Ok(Err(_)) | Err(_) => None,
        };
        let found = form.map_or(self.original, Found::Cached);
        respond(&self.name, found, Some(Precompressed::OnDemand), method, fields)
    }
}

/// What a form is made of.
pub(super) enum Original {
    /// A file in memory.
    Kept(Arc<Cached>),
    /// One on its way there.
    Open(Arc<File>, Metadata),
}

impl Original {
    pub(super) fn of(found: &Found, cache: &Cache) -> Option<Original> {
        match found {
            Found::Cached(cached) => Some(Original::Kept(Arc::clone(cached))),
            Found::File(representation, body) if body.left() <= cache.file_bytes_max() => {
                let file = Arc::clone(body.file());
                let metadata = file.metadata().ok()?;
                // The form has the tag of the file as it was described.
                let is_described =
                    metadata.len() == body.left() && metadata.modified().ok()? == representation.modified;
                is_described.then_some(Original::Open(file, metadata))
            }
            _ => None,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        match self {
            Original::Kept(cached) => cached.content.len() as u64,
            Original::Open(_, metadata) => metadata.len(),
        }
    }

    /// Whether a form was made of this.
    fn is_behind(&self, form: &Cached) -> bool {
        match self {
            Original::Kept(cached) => cached.is_of_same(form),
            Original::Open(_, metadata) => form.is_of(metadata),
        }
    }

    pub(super) fn is_useless_as(&self, encoding: Encoding) -> bool {
        matches!(self, Original::Kept(cached) if cached.forms.is_useless(encoding))
    }
}

/// The order to make a form; it is carried out once, however many wait.
struct Order {
    cache: Arc<Cache>,
    key: Key,
    original: Original,
    representation: Representation,
    encoding: Encoding,
    told: watch::Sender<Option<Option<Arc<Cached>>>>,
}

impl Order {
    async fn carry_out(self) {
        // Nobody closes it.
        let Ok(turn) = TURNS.acquire().await else { return };
        let made = spawn_blocking(move || {
            let _turn = turn;
            let form = self.make().unwrap_or_else(|error| {
                let name = self.key.name().split('\0').next().unwrap_or_default();
                tracing::warn!("file {name:?}: not compressed: {error}");
                None
            });
            if let Some(form) = &form {
                self.cache.insert(self.key.clone(), form);
            }
            let _ = self.told.send(Some(form));
        });
        // A panic is told where it happens; who waits sees that nobody tells anything any more.
        let _ = made.await;
    }

    /// The form, if it is smaller than the file, and the file is still the same.
    fn make(&self) -> io::Result<Option<Arc<Cached>>> {
        let compress = |content: &[u8]| -> io::Result<Option<Vec<u8>>> {
            let encoded = encode(self.encoding, Effort::Kept, content)?;
            Ok((encoded.len() < content.len()).then_some(encoded))
        };
        let representation = || self.representation.clone();
        let form = match &self.original {
            Original::Kept(cached) => {
                let Some(encoded) = compress(cached.content.bytes())? else {
                    cached.forms.note_useless(self.encoding);
                    return Ok(None);
                };
                cached.in_form(representation(), self.cache.hold(encoded))
            }
            Original::Open(file, metadata) => {
                let Some(encoded) = compress(&file_body::read_part(file, 0, metadata.len())?)? else {
                    return Ok(None);
                };
                let form = Cached::new(representation(), self.cache.hold(encoded), metadata);
                if !form.is_of(&file.metadata()?) {
                    return Ok(None);
                }
                form
            }
        };
        Ok(Some(Arc::new(form)))
    }
}

impl Drop for Order {
    /// Done, or never to be done: the next who wants the form orders it anew, if it is not in the cache.
    fn drop(&mut self) {
        self.cache.makings.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use http::header;

    use super::*;
    use crate::directory::Directory;
    use crate::types::Types;
    use sluice_settings::compression::Compression;
    use sluice_settings::{CacheUse, CompressionSettings, FileSettings};

    #[test]
    fn no_more_forms_are_made_at_once_than_the_bound() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::open(place.path()).unwrap();
        let makings = InFlight::default();
        let (_told, form) = watch::channel(None);
        let begin = |number: usize| makings.begin(&Key::new(&directory, &number.to_string()), form.clone(), || None);
        assert!((0..MAKINGS_MAX).all(|number| matches!(begin(number), Begun::Here(_))));
        assert!(matches!(begin(0), Begun::Elsewhere(_)), "it is being made");
        assert!(matches!(begin(MAKINGS_MAX), Begun::Not));
    }

    #[tokio::test(start_paused = true)]
    async fn a_form_that_does_not_come_is_not_waited_for_without_end() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("a.txt"), "text").unwrap();
        let directory = Directory::open(place.path()).unwrap();
        let files = Files {
            directory: &directory,
            cache: None,
            cache_use: CacheUse::On,
            types: &Types::new(&FileSettings::default()),
            compression: &Compression::new(&CompressionSettings::default()),
            precompressed: Some(Precompressed::OnDemand),
        };
        let respond = async |form| {
            let making = PendingVariant::new("a.txt", files.find("a.txt").unwrap(), form);
            let response = making.respond(&Method::GET, &HeaderMap::new()).await.unwrap();
            assert!(!response.headers().contains_key(header::CONTENT_ENCODING));
            assert_eq!(response.body().length(), Some(4));
        };
        let (told, form) = watch::channel(None);
        // The clock stands until nothing else is to be done.
        respond(form.clone()).await;
        told.send_replace(Some(None));
        respond(form).await;
        let (gone, form) = watch::channel(None);
        drop(gone);
        respond(form).await;
    }
}
