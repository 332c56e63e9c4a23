//! Applications in Python that are ASGI, and are named where a WSGI application is wanted.
//!
//! The text of the module is read, and nothing of it is run: its last statement at the left margin that gives the name a value says what it is. Whatever is not certainly ASGI
//! is left to the engine, which knows it when it has imported the module.

/// Classes and functions of frameworks that make an ASGI application.
const ASGI: [&str; 9] = [
    "FastAPI",
    "Starlette",
    "Quart",
    "Litestar",
    "Sanic",
    "BlackSheep",
    "ProtocolTypeRouter",
    "get_asgi_application",
    "WsgiToAsgi",
];

/// Whether a module's text makes an ASGI application of this name.
pub(super) fn is_asgi(text: &str, name: &str) -> bool {
    let mut made = text.lines().rev().filter_map(|line| made_by(line, name));
    match made.next() {
        Some(Statement::AsyncFunction) => true,
        Some(Statement::Call(function)) => ASGI.contains(&function),
        Some(Statement::Other) | None => false,
    }
}

/// The statement that gives a name its value.
enum Statement<'a> {
    AsyncFunction,
    /// `name = module.Function(…)`.
    Call(&'a str),
    Other,
}

fn made_by<'a>(line: &'a str, name: &str) -> Option<Statement<'a>> {
    let after = |text: &'a str| {
        let rest = text.strip_prefix(name)?;
        rest.starts_with(|letter: char| !letter.is_alphanumeric() && letter != '_')
            .then_some(rest)
    };
    for (begin, made) in [
        ("async def ", Statement::AsyncFunction),
        ("def ", Statement::Other),
        ("class ", Statement::Other),
    ] {
        if let Some(text) = line.strip_prefix(begin) {
            return after(text.trim_start()).map(|_| made);
        }
    }
    let (target, value) = after(line)?.split_once('=')?;
    // Of `name: Type = …` the type does not matter; `name.attribute = …` and `name == …` give it no value.
    if !(target.trim().is_empty() || target.trim_start().starts_with(':')) || value.starts_with('=') {
        return None;
    }
    let Some((function, _)) = value.split_once('(') else {
        return Some(Statement::Other);
    };
    Some(Statement::Call(function.trim().rsplit('.').next().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_statement_that_makes_the_application_says_what_it_is() {
        for (text, expected) in [
            ("from fastapi import FastAPI\napp = FastAPI(title='a')\n", true),
            ("app: Starlette = applications.Starlette(\n  routes)\n", true),
            ("async def app(scope, receive, send):\n    pass\n", true),
            ("application = FastAPI()\n", false),
            ("app = FastAPI()\napp = ASGIMiddleware(app)\n", false),
            (
                "app = FastAPI()\napp.title = get(1)\n@app.get('/')\nasync def root(): pass\n",
                true,
            ),
            ("def app(environ, start_response):\n    app = FastAPI()\n", false),
            ("app = Flask(__name__)\n", false),
            ("apps = FastAPI()\napp == FastAPI()\n", false),
            ("", false),
        ] {
            assert_eq!(is_asgi(text, "app"), expected, "{text}");
        }
    }
}
