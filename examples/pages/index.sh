# index.sh: a script among files, and what answers where there is no file. The demo's route for /pages/* is
#
#   path = "/pages/*"
#   directory = "pages"
#   scripts = { ".sh" = "/bin/sh" }
#   fallback = ["$0.html", "/pages/index.sh"]
#
# so this file needs no execute bit and no "#!" line, and its text is never sent.
set -eu

# The text of a variable, which a visitor chooses, as text of HTML.
text() {
    printf '%s' "$1" | sed 's/&/\&amp;/g; s/</\&lt;/g; s/>/\&gt;/g'
}

cat <<END
Content-Type: text/html; charset=utf-8

<!DOCTYPE html>
<html lang="en">
<title>index.sh</title>
<link rel="stylesheet" href="/style.css">
<h1>$(text "$REQUEST_URI")</h1>
<p>No file has this path, so <code>index.sh</code> made this page. It may be of any path:
<a href="/pages/news/2026?page=2">/pages/news/2026?page=2</a>. <a href="/pages/welcome">/pages/welcome</a> is a file.</p>
<table>
<tr><th scope="row">SCRIPT_NAME</th><td>$(text "$SCRIPT_NAME")</td></tr>
<tr><th scope="row">PATH_INFO</th><td>$(text "${PATH_INFO-not set}")</td></tr>
<tr><th scope="row">QUERY_STRING</th><td>$(text "$QUERY_STRING")</td></tr>
<tr><th scope="row">REDIRECT_URL</th><td>$(text "${REDIRECT_URL-not set}")</td></tr>
</table>
END
