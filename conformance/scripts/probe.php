<?php
// The behaviours as a script in PHP on the library: CGI, CGIplus and RTE by the same source. PATH_INFO names one.

// The engine has these functions.
if (!function_exists('sluice_accept')) {
    require_once getenv('SLUICE_SDK') . '/php/sluice.php';
}

function text_head(...$fields)
{
    foreach ($fields as $field) {
        sluice_header(...explode(': ', $field, 2));
    }
    sluice_respond('text/plain; charset=utf-8');
}

function variables()
{
    text_head();
    foreach (explode(' ', sluice_variable('HTTP_X_NAMES')) as $name) {
        $value = sluice_variable($name);
        sluice_write($value === null ? "$name is absent\n" : "$name=$value\n");
    }
}

function fields()
{
    text_head('X-Twice: one', 'X-Twice: two', 'Set-Cookie: a=1', 'Set-Cookie: b=2; Path=/');
    sluice_write(sluice_variable('HTTP_X_TWICE') . "\n" . sluice_variable('HTTP_COOKIE') . "\n");
}

function copy_body()
{
    sluice_header('X-Content-Length', sluice_variable('CONTENT_LENGTH') ?: '0');
    sluice_respond('application/octet-stream');
    while (strlen($data = sluice_body_read(65536)) > 0) {
        sluice_write($data);
    }
}

function to_and_fro()
{
    text_head();
    foreach ([1, 2] as $number) {
        $got = 0;
        while ($got < 65536 && strlen($data = sluice_body_read(65536 - $got)) > 0) {
            $got += strlen($data);
        }
        sluice_write("part $number: $got bytes\n");
        sluice_flush();
    }
}

function wait_at_gate() { return fgets(fopen(getenv('PROBE_DIR') . '/gate', 'r')); }

function stream()
{
    text_head();
    sluice_write("first\n");
    sluice_flush();
    sluice_write(wait_at_gate());
}

function events()
{
    sluice_event("one\ntwo", 'first', '1');
    sluice_event(trim(wait_at_gate()));
}

// A head of its own: sluice_redirect() sends the client there.
function local_redirect() { echo "Location: /target.txt?from=script\n\n"; }

function client_redirect() { sluice_redirect('https://example.org/elsewhere?a=1'); }

function document_redirect()
{
    sluice_status(303);
    text_head('Location: https://example.org/new');
    sluice_write("It is elsewhere.\n");
}

function status()
{
    sluice_status((int) sluice_variable('QUERY_STRING'));
    text_head();
    sluice_write("a document\n");
}

function fail()
{
    sluice_header('X-Dropped', 'yes');
    sluice_fail((int) sluice_variable('QUERY_STRING'), 'not now');
}

function large_head()
{
    $fields = [];
    for ($number = 0; $number < (int) sluice_variable('HTTP_X_COUNT'); $number++) {
        $fields[] = "X-Field-$number: " . str_repeat('v', 300);
    }
    text_head(...$fields);
    sluice_write(strlen(sluice_variable('HTTP_X_LARGE')) . ' ' . strlen(sluice_variable('QUERY_STRING')) . "\n");
}

function head_only() { text_head(); }

function no_content()
{
    sluice_status(204);
    sluice_respond();
}

function nothing() {}

function nph()
{
    echo "HTTP/1.1 299 Its Own\r\nContent-Type: text/plain\r\nX-Nph: yes\r\n\r\nwith its own head\n";
}

function short()
{
    text_head('Content-Length: 100');
    sluice_write("short\n");
}

function die_before() { posix_kill(getmypid(), 9); }

// Goes on when the client has got this.
function half()
{
    text_head();
    sluice_write("half\n");
    sluice_flush();
    wait_at_gate();
}

function die_within()
{
    half();
    posix_kill(getmypid(), 9);
}

function exit_before() { exit(3); }

function exit_within()
{
    text_head();
    sluice_write("before\n");
    exit;
}

function error_before() { throw new RuntimeException('an error ' . sluice_variable('QUERY_STRING')); }

function error_within()
{
    half();
    error_before();
}

function endless()
{
    while (true) {
        usleep(10000);
    }
}

function errors()
{
    text_head();
    sluice_write((string) getmypid());
    error_log('a line ' . sluice_variable('QUERY_STRING'));
}

function process()
{
    text_head();
    sluice_write((string) getmypid());
}

function directory()
{
    text_head();
    sluice_write(getcwd() . "\n" . (count($_SERVER['argv'] ?? [1]) - 1) . " arguments\n");
}

function look()
{
    text_head();
    foreach (['REQUEST_METHOD', 'QUERY_STRING', 'CONTENT_LENGTH', 'CONTENT_TYPE', 'HTTP_X_LEFT', 'HTTP_COOKIE'] as $name) {
        sluice_write("$name=" . (sluice_variable($name) ?? 'None') . "\n");
    }
    sluice_write('parameters: ' . count(sluice_parameter_names()) . "\n");
}

function leave()
{
    sluice_status(404);
    text_head('X-Left: here');
    sluice_write("left\n");
}

function bulk()
{
    text_head();
    sluice_write(getmypid() . "\n");
    sluice_flush();
    while (true) {
        sluice_write(str_repeat('x', 65536));
    }
}

function silent()
{
    text_head();
    sluice_write(getmypid() . "\n");
    sluice_flush();
    sluice_write(wait_at_gate());
}

function form()
{
    text_head();
    foreach (['a', 'b', 'c'] as $name) {
        sluice_write("$name: " . implode('|', sluice_parameters($name)) . "\n");
    }
    sluice_write(sluice_parameter('a') . ' ' . sluice_parameter('missing', 'absent') . "\n");
}

function upload()
{
    text_head();
    foreach (['f', 'g'] as $name) {
        $file = sluice_upload($name);
        sluice_write("$file[name]|$file[filename]|$file[type]|$file[size]\n");
    }
    sluice_write(file_get_contents($file['path']));
}

function form_limit()
{
    try {
        sluice_parameter('a');
    } catch (Exception $error) {
        sluice_fail($error->getCode());
        return;
    }
    text_head();
}

function quoted()
{
    text_head();
    sluice_write(sluice_parameter('a"b') . "\n" . sluice_upload('f"g')['filename'] . "\n");
}

function loop()
{
    text_head();
    sluice_write(getmypid() . (sluice_is_persistent() ? ' yes ' : ' no ') . sluice_uses());
}

function coding()
{
    $text = "<a href=\"x\">'&amp;ü</a> 100%";
    text_head();
    foreach ([sluice_escape_html($text), sluice_url_encode($text), sluice_url_decode('%3Ca%3E+%C3%BC+%zz%')] as $coded) {
        sluice_write("$coded\n");
    }
}

function callouts()
{
    text_head();
    foreach (['MAP-PATH: /file.txt', 'MAP-FILE: /etc/passwd', 'NONSENSE: x', 'LIFETIME: 1h', 'NOOP:'] as $request) {
        [$code, $text] = sluice_callout($request);
        sluice_write("$code $text\n");
    }
    sluice_notice('a notice ' . sluice_variable('QUERY_STRING'));
}

function block($number) { return str_repeat(chr(ord('a') + $number % 26), 65536); }

function ask($request)
{
    [$code, $text] = sluice_callout($request);
    if ($code !== 200) {
        throw new RuntimeException("$request: $code $text");
    }
}

function buffer_plain()
{
    ask('BUFFER-BEGIN: 128k');
    text_head();
    $buffer = fopen('php://fd/4', 'r+b');
    stream_set_write_buffer($buffer, 0);
    for ($number = 0; $number < (int) sluice_variable('QUERY_STRING'); $number++) {
        $offset = $number % 2 * 65536;
        fseek($buffer, $offset);
        fwrite($buffer, block($number));
        ask("BUFFER-WRITE: 65536 $offset");
    }
    sluice_callout('BUFFER-END:');
}

function buffer()
{
    sluice_buffer_begin(1 << 20);
    text_head();
    for ($number = 0; $number < (int) sluice_variable('QUERY_STRING'); $number++) {
        sluice_buffer_write(block($number)) || throw new RuntimeException('the memory buffer cannot be written');
    }
    sluice_buffer_end();
}

function buffer_gone()
{
    ignore_user_abort(true); // otherwise PHP ends the script when its client has left
    sluice_buffer_begin(1 << 20);
    text_head();
    try {
        while (sluice_buffer_write(block(0)) !== false);
        $why = 'false';
    } catch (Exception $error) {
        $why = $error->getMessage();
    }
    file_put_contents(getenv('PROBE_DIR') . '/event', "gone: $why\n");
}

// Names that PHP has itself.
$own = ['echo' => 'copy_body', 'empty' => 'head_only'];
while (sluice_accept()) {
    $name = str_replace('-', '_', explode('/', sluice_variable('PATH_INFO'))[1]);
    ($own[$name] ?? $name)();
    sluice_finish();
}
