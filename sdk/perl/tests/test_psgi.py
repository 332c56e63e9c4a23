"""PSGI applications: the suite of Plack against the real server, streaming, bodies, and applications of frameworks."""

import os
import subprocess
import tempfile
import unittest

from common import PerlCase, testing

APP = """
    [server]
    sdk = "@SDK@"
    [[site]]
    root = "htdocs"
    error_detail = "local"
      [[site.route]]
      path = "/mounted/*"
      script = { mode = "rte", engine = "perl", app = "app.psgi", directory = "app", max = 1, environment = { TMPDIR = "@TMP@" } }
      [[site.route]]
      path = "/files/*"
      script = { mode = "rte", engine = "perl", directory = "app", max = 1, environment = { TMPDIR = "@TMP@" } }
      [[site.route]]
      path = "/fork/*"
      script = { mode = "rte", engine = "perl", app = "app.psgi", directory = "app", fresh = "fork", environment = { TMPDIR = "@TMP@" } }
"""

APPLICATION = r"""
my $count = 0;
sub { my $env = shift;
    my $path = $env->{PATH_INFO};
    my @text = ('Content-Type' => 'text/plain');
    return [200, [@text], ["$env->{SCRIPT_NAME}|$path|", ++$count]] if $path =~ m{^/path};
    if ($path eq '/print') { print "to the log\n"; system "echo child to the log"; return [200, [@text], ['ok']] }
    if ($path eq '/delayed') { return sub { my $respond = shift; $respond->([201, [@text], ['delayed']]) } }
    if ($path eq '/stream') { return sub {
        my $writer = shift->([200, [@text]]);
        $writer->write("first\n");
        open my $fifo, '<', '@DIR@/go'; <$fifo>;
        $writer->write("second\n"); $writer->close } }
    if ($path eq '/echo') { my $body = ''; 1 while $env->{'psgi.input'}->read($body, 10_000, length $body); return [200, [@text], [length $body, substr $body, -3]] }
    if ($path eq '/lines') { my @l; while (defined(my $l = $env->{'psgi.input'}->getline)) { push @l, $l } return [200, [@text], [scalar @l]] }
    if ($path eq '/keep') { push @main::kept, $env->{'psgi.input'}; $env->{'psgi.input'}->read(my $body, 2); return [200, [@text], [$body]] }
    if ($path eq '/kept') {
        eval { 1 while $main::kept[-1]->read(my $stolen, 5); 1 } or my $error = $@;
        $env->{'psgi.input'}->read(my $own, 100);
        return [200, [@text], ["$error$own"]];
    }
    if ($path eq '/nice') { require POSIX; my $before = getpriority 0, 0; POSIX::nice($env->{QUERY_STRING}) if $env->{QUERY_STRING}; return [200, [@text], ["$$ $before"]] }
    if ($path eq '/unread') { return [200, [@text], ['unread']] }
    if ($path eq '/file') { open my $file, '<', '@DIR@/app/large'; return [200, [@text], $file] }
    if ($path eq '/handle') { my @parts = ('a', 'b', 'c'); return [200, [@text], Parts->new(@parts)] }
    if ($path eq '/die') { die "broken application\n" }
    if ($path eq '/late') { return sub { my $w = shift->([200, [@text]]); $w->write('x' x 100); die "too late\n" } }
    if ($path eq '/exit') { exit 3 }
    if ($path eq '/never') { return sub { } }
    if ($path eq '/wide') { return [200, [@text], ["\x{263a}"]] }
    if ($path eq '/split') { return [200, [@text, 'X-Evil' => "a\nSet-Cookie: b"], ['']] }
    if ($path eq '/env') { return [200, [@text], [join ' ', map { ref || $_ } map { $env->{$_} // 'undef' } qw(psgi.url_scheme psgi.streaming psgi.multiprocess psgi.version REQUEST_METHOD)]] }
    if ($path eq '/cleanup') { push @{ $env->{'psgix.cleanup.handlers'} }, sub { print STDERR "cleaned up\n" }; return [200, [@text], ['ok']] }
    if ($path eq '/harakiri') { $env->{'psgix.harakiri.commit'} = 1; return [200, [@text], [$$]] }
    return [404, [@text], ['none']];
};
package Parts; sub new { my $class = shift; bless [@_], $class } sub getline { shift @{ $_[0] } } sub close { print STDERR "closed the body\n" }
package main;
"""


class Application(PerlCase):
    configuration = APP
    files = {
        # The application is the last value of the file.
        "app/app.psgi": "#!/usr/bin/env plackup\n" + APPLICATION.replace("sub { my $env", "my $app = sub { my $env") + "$app;\n",
        "app/large": b"0123456789" * 300_000,
        "app/broken.psgi": "#!/usr/bin/env plackup\ndie 'not today';",
        "app/nothing.psgi": "#!/usr/bin/env plackup\n5;",
        "app/script.pl": "#!/usr/bin/perl\nprint \"Content-Type: text/plain\\n\\nscript\";",
    }

    def get(self, path, status=200):
        got = self.server.get("/mounted" + path)
        self.assertEqual((got.status, got.is_complete), (status, True), got)
        return got

    def test_path_and_state(self):
        first = self.get("/path/a").text
        self.assertTrue(first.startswith("/mounted|/path/a|"), first)
        self.assertEqual(int(self.get("/path//b").text.split("|")[2]), int(first.split("|")[2]) + 1)
        self.assertEqual(self.get("/path//c").text.split("|")[1], "/path//c")
        self.assertEqual(self.get("/env").text, "http 1 1 ARRAY GET")

    def test_standard_output_is_the_log(self):
        start = self.server.log_position()
        self.assertEqual(self.get("/print").text, "ok")
        self.server.log_line("child to the log", start)
        self.server.log_line(" to the log", start)

    def test_delayed_response_and_writer(self):
        self.assertEqual(self.get("/delayed", 201).text, "delayed")
        fifo = self.server.fifo("go")
        with self.server.connect() as client:
            client.get("/mounted/stream")
            self.assertEqual(client.head().status, 200)
            client.read_body_until(b"first\n")
            fifo.release()
            client.read_body_until(b"second\n")
            self.assertEqual(client.read_chunk(), b"")

    def test_request_bodies(self):
        for size in (1, 1000, 70_000, 2_000_000):
            got = self.server.post("/mounted/echo", b"z" * (size - 1) + b"e")
            self.assertEqual(got.text, f"{size}" + ("z" * (size - 1) + "e")[-3:])
        self.assertEqual(self.server.post("/mounted/lines", b"a\nb\nc").text, "3")
        for _ in range(3):
            self.assertEqual(self.server.post("/mounted/unread", b"q" * 300_000).text, "unread")
            self.assertEqual(self.server.post("/mounted/echo", b"abc").text, "3abc")

    def test_a_body_that_is_kept_ends_with_its_reply(self):
        head = b"POST /mounted/%s HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n"
        with self.server.connect() as client:
            client.send(head % b"keep" + b"01234")
            self.assertEqual(client.response().text, "01")
            client.send(b"56789" + head % b"kept" + b"abcdefghij")
            self.assertEqual(client.response().text, "the request of this body has been answered\nabcdefghij")

    def test_another_priority_costs_the_process(self):
        process, priority = self.get("/nice").text.split()
        self.assertEqual(self.get("/nice?1").text, f"{process} {priority}")
        other, after = self.get("/nice").text.split()
        self.assertNotEqual(other, process)
        self.assertEqual(after, priority)

    def test_bodies_from_handles(self):
        got = self.get("/file")
        self.assertEqual(got.body, b"0123456789" * 300_000)
        start = self.server.log_position()
        self.assertEqual(self.get("/handle").text, "abc")
        self.server.log_line("closed the body", start)

    def test_failures(self):
        for path, message in (("/die", "broken application"), ("/exit", "called exit"), ("/never", "no complete response"), ("/wide", "encode it"),
                              ("/split", "has a line break")):
            with self.subTest(path):
                start = self.server.log_position()
                page = self.get(path, 500).text
                self.server.log_line(f"failed: {message}" if path == "/die" else message, start)
                # The site shows details to visitors on this machine: the reason, and the lines of standard error.
                self.assertIn("Last lines of its standard error:", page)
                self.assertEqual(page.count(message), 2, page)
                self.assertIn("GET /mounted" + path, self.server.log_line("failed: ", start))
        got = self.server.get("/mounted/late")
        self.assertFalse(got.status == 200 and got.is_complete, got)
        self.assertEqual(self.get("/delayed", 201).text, "delayed")

    def test_cleanup_and_harakiri(self):
        start = self.server.log_position()
        self.get("/cleanup")
        self.server.log_line("cleaned up", start)
        pids = {self.get("/harakiri").text for _ in range(2)}
        self.assertEqual(len(pids), 2)

    def test_applications_among_scripts(self):
        for _ in range(2):
            self.assertEqual(self.server.get("/files/app.psgi/path/x").text.split("|")[:2], ["/files/app.psgi", "/path/x"])
            self.assertEqual(self.server.get("/files/script.pl").text, "script")
        for name, message in (("broken", "not today"), ("nothing", "does not return a PSGI application")):
            start = self.server.log_position()
            got = self.server.get(f"/files/{name}.psgi/")
            self.assertEqual(got.status, 500)
            self.assertIn(message, got.text)
            self.server.log_line(message, start)

    def test_fork_mode(self):
        for _ in range(3):
            self.assertEqual(self.server.get("/fork/path").text, "/fork|/path|1")
        self.assertEqual(self.server.get("/fork/die").status, 500)
        self.assertEqual(self.server.get("/fork/file").body, b"0123456789" * 300_000)

    def test_a_changed_application_is_loaded(self):
        self.server.write("app/second.psgi", '#!/usr/bin/env plackup\nsub { [200, ["Content-Type", "text/plain"], ["old"]] }')
        self.assertEqual(self.server.get("/files/second.psgi").text, "old")
        self.server.write("app/second.psgi", '#!/usr/bin/env plackup\nsub { [200, ["Content-Type", "text/plain"], ["renewed"]] }')
        self.assertEqual(self.server.get("/files/second.psgi").text, "renewed")


class Suite(unittest.TestCase):
    def test_plack_test_suite(self):
        testing.need_perl("Plack::Test::Suite")
        with tempfile.TemporaryDirectory() as directory:
            with open(f"{directory}/app.psgi", "w") as file:
                file.write("use Plack::Test::Suite; use Plack::Middleware::Lint;\n")
                file.write("Plack::Middleware::Lint->wrap(Plack::Test::Suite->test_app_handler);\n")
            code = "use Plack::Test::Suite; use Test::More; Plack::Test::Suite->run_server_tests('Sluice', undef, undef, psgi => shift); done_testing;"
            # As to a CGI program, the server gives no field Authorization to scripts: the suite has a variable for that.
            environment = os.environ | {"SLUICE": testing.binary(), "TMPDIR": directory, "PLACK_TEST_HANDLER": "CGI"}
            library = os.path.join(testing.CHECKOUT, "sdk/perl/lib")
            got = subprocess.run(["perl", "-I", library, "-e", code, f"{directory}/app.psgi"], env=environment, capture_output=True, text=True,
                                 timeout=testing.DEADLINE)
            failed = [line for line in got.stdout.splitlines() if line.startswith("not ok")]
            self.assertEqual((failed, got.returncode), ([], 0), got.stdout[-4000:] + got.stderr[-4000:])
            self.assertGreater(got.stdout.count("\nok "), 90)


class Frameworks(PerlCase):
    configuration = """
        [server]
        sdk = "@SDK@"
        [[site]]
        root = "htdocs"
          [[site.route]]
          path = "/dancer/*"
          script = { mode = "rte", engine = "perl", app = "app.psgi", directory = "dancer", environment = { TMPDIR = "@TMP@" } }
          [[site.route]]
          path = "/mojo/*"
          script = { mode = "rte", engine = "perl", app = "app.psgi", directory = "mojo", environment = { TMPDIR = "@TMP@" } }
    """
    files = {
        "dancer/app.psgi": """
package MyApp; use Dancer2;
set logger => 'null';
get '/' => sub { 'Hello from Dancer2 at ' . request->script_name };
get '/hello/:name' => sub { 'Hello ' . route_parameters->get('name') . ' ' . (query_parameters->get('q') // '') };
post '/form' => sub { body_parameters->get('a') . '+' . body_parameters->get('b') };
post '/upload' => sub { my $u = upload('f'); $u->filename . ' ' . length $u->content };
get '/json' => sub { send_as JSON => {a => [1, 2]} };
get '/redirect' => sub { redirect '/hello/there' };
get '/cookie' => sub { cookie seen => 'yes'; 'set' };
get '/die' => sub { die 'no' };
MyApp->to_app;
""",
        "mojo/app.psgi": """
use Mojolicious::Lite -signatures;
app->log->level('fatal');
get '/' => sub ($c) { $c->render(text => 'Hello from Mojolicious at ' . $c->url_for('/')) };
get '/template/:name' => 'page';
post '/form' => sub ($c) { $c->render(json => {sum => $c->param('a') + $c->param('b')}) };
post '/upload' => sub ($c) { my $u = $c->req->upload('f'); $c->render(text => $u->filename . ' ' . $u->size) };
get '/stream' => sub ($c) { $c->write_chunk('one ', sub ($c, @) { $c->write_chunk('two', sub ($c, @) { $c->finish }) }) };
app->start;
__DATA__
@@ page.html.ep
<p>Hello <%= $name %></p>
""",
    }

    UPLOAD = b'--B\r\nContent-Disposition: form-data; name="f"; filename="n.bin"\r\n\r\n' + b"d" * 400_000 + b"\r\n--B--\r\n"
    FORM = {"Content-Type": "application/x-www-form-urlencoded"}

    def upload(self, path):
        return self.server.post(path, self.UPLOAD, {"Content-Type": "multipart/form-data; boundary=B"}).text

    def test_dancer2(self):
        testing.need_perl("Dancer2")
        for _ in range(2):
            self.assertEqual(self.server.get("/dancer/").text, "Hello from Dancer2 at /dancer")
            self.assertEqual(self.server.get("/dancer/hello/W%C3%B6rld?q=1").text, "Hello Wörld 1")
            self.assertEqual(self.server.post("/dancer/form", b"a=1&b=2", self.FORM).text, "1+2")
            self.assertEqual(self.server.get("/dancer/json").text, '{"a":[1,2]}')
            self.assertIn("/dancer/hello/there", self.server.get("/dancer/redirect").field("Location"))
            self.assertIn("seen=yes", self.server.get("/dancer/cookie").field("Set-Cookie"))
            self.assertEqual(self.server.get("/dancer/die").status, 500)
            self.assertEqual(self.server.get("/dancer/nothing").status, 404)
            self.assertEqual(self.upload("/dancer/upload"), "n.bin 400000")

    def test_mojolicious(self):
        testing.need_perl("Mojolicious")
        for _ in range(2):
            self.assertEqual(self.server.get("/mojo/").text, "Hello from Mojolicious at /mojo")
            self.assertEqual(self.server.get("/mojo/template/you").text, "<p>Hello you</p>\n\n".replace("\n\n", "\n"))
            self.assertEqual(self.server.post("/mojo/form", b"a=1&b=2", self.FORM).text, '{"sum":3}')
            self.assertEqual(self.upload("/mojo/upload"), "n.bin 400000")
            self.assertEqual(self.server.get("/mojo/stream").text, "one two")


if __name__ == "__main__":
    unittest.main()
