#!/usr/bin/env php-cgi
<?php
// The behaviours as a script in PHP that uses no library. PATH_INFO names one.

function variable($name) { return $_SERVER[$name] ?? null; }

function text_head(...$fields)
{
    header('Content-Type: text/plain; charset=utf-8');
    foreach ($fields as $field) {
        header($field, false);
    }
}

function send_now()
{
    while (ob_get_level() > 0) {
        ob_end_flush();
    }
    flush();
}

function variables()
{
    text_head();
    foreach (explode(' ', variable('HTTP_X_NAMES')) as $name) {
        echo isset($_SERVER[$name]) ? "$name=$_SERVER[$name]\n" : "$name is absent\n";
    }
}

function fields()
{
    text_head('X-Twice: one', 'X-Twice: two');
    setcookie('a', '1');
    setcookie('b', '2', ['path' => '/']);
    echo variable('HTTP_X_TWICE'), "\n", variable('HTTP_COOKIE'), "\n";
}

function copy_body()
{
    header('Content-Type: application/octet-stream');
    header('X-Content-Length: ' . (variable('CONTENT_LENGTH') ?: 0));
    $body = fopen('php://input', 'rb');
    while (!feof($body)) {
        echo fread($body, 65536);
    }
}

function to_and_fro()
{
    text_head();
    $body = fopen('php://input', 'rb');
    foreach ([1, 2] as $number) {
        for ($got = 0; $got < 65536 && !feof($body); $got += strlen(fread($body, 65536 - $got)));
        echo "part $number: $got bytes\n";
        send_now();
    }
}

function wait_at_gate() { return fgets(fopen(variable('PROBE_DIR') . '/gate', 'r')); }

function stream()
{
    text_head();
    echo "first\n";
    send_now();
    echo wait_at_gate();
}

function local_redirect()
{
    // header('Location: …') sets the status 302, with which it is no local redirect.
    header('Location: /target.txt?from=script');
    header_remove('Content-Type');
}

function client_redirect() { header('Location: https://example.org/elsewhere?a=1'); }

function document_redirect()
{
    text_head();
    header('Location: https://example.org/new', true, 303);
    echo "It is elsewhere.\n";
}

function status()
{
    text_head();
    header('HTTP/1.1 ' . variable('QUERY_STRING') . ' Its Own Words');
    echo "a document\n";
}

function large_head()
{
    text_head();
    for ($number = 0; $number < variable('HTTP_X_COUNT'); $number++) {
        header("X-Field-$number: " . str_repeat('v', 300));
    }
    echo strlen(variable('HTTP_X_LARGE')), ' ', strlen(variable('QUERY_STRING')), "\n";
}

function nothing_more() { text_head(); }

function no_content() { http_response_code(204); }

function short()
{
    text_head('Content-Length: 100');
    echo "short\n";
}

function die_before() { posix_kill(getmypid(), 9); }

// Goes on when the client has got this.
function half()
{
    text_head();
    echo "half\n";
    send_now();
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
    echo "before\n";
    exit;
}

function error_before() { throw new RuntimeException('an error ' . variable('QUERY_STRING')); }

function error_within()
{
    half();
    throw new RuntimeException('an error ' . variable('QUERY_STRING'));
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
    echo getmypid();
    error_log('a line ' . variable('QUERY_STRING'));
}

function process()
{
    text_head();
    echo getmypid();
}

function directory()
{
    text_head();
    echo getcwd(), "\n", count($_SERVER['argv'] ?? [1]) - 1, " arguments\n";
}

function look()
{
    text_head();
    foreach (['REQUEST_METHOD', 'QUERY_STRING', 'CONTENT_LENGTH', 'CONTENT_TYPE', 'HTTP_X_LEFT', 'HTTP_COOKIE', 'LEFT'] as $name) {
        echo "$name=", variable($name) ?? (getenv($name) !== false ? getenv($name) : 'None'), "\n";
    }
    printf("global=%s directory=%s umask=%o limit=%s form=%d files=%d\n", $GLOBALS['left'] ?? 'None', getcwd(), umask(),
        ini_get('precision'), count($_POST) + count($_GET) + count($_COOKIE), count($_FILES));
}

function leave()
{
    $GLOBALS['left'] = 'by another request';
    putenv('LEFT=by another request');
    ini_set('precision', '5');
    chdir('/');
    umask(7);
    text_head('X-Left: here');
    http_response_code(404);
    echo "left\n";
}

function bulk()
{
    text_head();
    echo getmypid(), "\n";
    send_now();
    while (true) {
        echo str_repeat('x', 65536);
    }
}

function silent()
{
    text_head();
    echo getmypid(), "\n";
    send_now();
    echo wait_at_gate();
}

if (!defined('WORKER')) {
    $name = str_replace('-', '_', explode('/', variable('PATH_INFO'))[1]);
    // Names that PHP has itself.
    $own = ['echo' => 'copy_body', 'empty' => 'nothing_more'];
    ($own[$name] ?? $name)();
}
