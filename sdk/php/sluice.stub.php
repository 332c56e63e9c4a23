<?php
/* sluice.stub.php: what the functions of the library do, for readers and for editors (PhpStorm, Intelephense, PHPStan, Psalm).
   The PHP engine has them built in; sluice.php defines them for php-cgi and the command line. This file is never run. */

/** The next request: true while there is one. Under CGI and in an engine once; in a CGIplus loop until the server closes CGIPLUSIN. */
function sluice_accept(): bool {}

/** Ends the response: the client gets its end now. Called by itself at the end of a script in the engine. False if it has ended before. */
function sluice_finish(): bool {}

/** True if sluice_accept() can be true again: the loop of a CGIplus script. False under CGI and in the engine, worker mode included. */
function sluice_is_persistent(): bool {}

/** The number of requests that this process has got, this one included. 1 under CGI and in fork mode, where each request has its own process. */
function sluice_uses(): int {}

/** A variable of the request, such as "REMOTE_ADDR"; the name is case-insensitive, with or without WWW_. */
function sluice_variable(string $name, mixed $default = null): mixed {}

/** All variables: name => value. @return array<string, string> */
function sluice_variables(): array {}

/** Up to $bytes bytes of the request body, "" at its end. PHP reads the bodies of forms itself: use the functions below for them. */
function sluice_body_read(int $bytes = 65536): string {}

/** The first value of a field of the query or the form. Names are those that the client sent: PHP's $_GET makes `a_b` of `a.b`.
 * @throws RuntimeException code 413: more than 1000 fields, more than 8 MiB of them, or a form larger than post_max_size; code 400: a multipart
 * form that is malformed, or ends before its last boundary (php-cgi does not notice that) */
function sluice_parameter(string $name, mixed $default = null): mixed {}

/** All values of a field, those of the query first. @return list<string> @throws RuntimeException as sluice_parameter() */
function sluice_parameters(string $name): array {}

/** The names of the fields, in their order, each once. @return list<string> @throws RuntimeException as sluice_parameter() */
function sluice_parameter_names(): array {}

/** The first file that was uploaded with this name. The file `path` is removed after the request.
 * @return array{name: string, filename: string, type: string, size: int, path: string}|null
 * @throws RuntimeException code 413: larger than upload_max_filesize or sluice_upload_limit() */
function sluice_upload(string $name): ?array {}

/** All files of this name. @return list<array{name: string, filename: string, type: string, size: int, path: string}>
 * @throws RuntimeException as sluice_upload() */
function sluice_uploads(string $name): array {}

/** The bytes that all uploads of a request may have together (1 GiB). PHP has stored them before the script runs, within post_max_size. */
function sluice_upload_limit(int $bytes): void {}

/** The status of the response, 200 to 599. @throws ValueError */
function sluice_status(int $code): void {}

/** Adds a header field; Content-Type, Content-Length and Location replace an earlier one.
 * @throws ValueError the name or the value has a control character, such as CR or LF */
function sluice_header(string $name, string $value): void {}

/** Writes the head. False if it has been written before. */
function sluice_respond(?string $type = null): bool {}

/** A redirect; a path begins with "/". @throws ValueError */
function sluice_redirect(string $url, int $code = 302): void {}

/** Writes a part of the body, as echo does. */
function sluice_write(string $data): void {}

/** Sends what has been written. */
function sluice_flush(): void {}

/** Sends a server-sent event; the first one makes the head. True while the client is there. When it has left, PHP ends the script, as with echo,
 * and only after ignore_user_abort(true) the result is false. @throws ValueError */
function sluice_event(string $data, ?string $name = null, ?string $id = null): bool {}

/** An error instead of the response: status 400 to 599; the body is the status and its reason, and a line of text. Fields of the head that were set before are dropped. The script
 * goes on. @throws RuntimeException the head has been sent */
function sluice_fail(int $status, ?string $text = null): void {}

/** Makes a callout; the answer as [code, text]; [0, ""] for a request that begins with "!" or "#". @return array{int, string}
 * @throws ValueError|RuntimeException */
function sluice_callout(string $request): array {}

/** Writes a line to the server's log. Null if the server refuses. */
function sluice_notice(string $text): ?string {}

/** Shows a line to those who watch this request (WATCH, item callouts). While nobody does nothing is sent. */
function sluice_watch(string $text): void {}

/** The file that a path of the site means; null if it means none. */
function sluice_map_path(string $path): ?string {}

/** The path by which a file is reached; null if there is none. */
function sluice_map_file(string $file): ?string {}

/** How long this process may be idle: "10" (minutes), "30s", "2h", "none". The seconds, or null if the server refuses. */
function sluice_lifetime(string $text): ?string {}

/** Requests the memory buffer, before the head is sent. Its size, or false if the server refuses: sluice_buffer_write() sends by the mailbox then, as echo does. */
function sluice_buffer_begin(int $bytes = 0): int|false {}

/** Sends data by the memory buffer; the first call sends the head. False if the client has left; after that the next call ends the script,
 * as echo does, unless it has called ignore_user_abort(true). In the engine echo uses the buffer, too, until sluice_buffer_end(). */
function sluice_buffer_write(string $data): bool {}

/** Waits until all is sent. The number of bytes, or false if the client has left. */
function sluice_buffer_end(): int|false {}

function sluice_escape_html(string $text): string {}

function sluice_url_encode(string $text): string {}

function sluice_url_decode(string $text): string {}

/** Worker mode: waits for the next request, calls $handler with the superglobals of that request, and sends the response. False when the
 * server retires the process: let the script end then. @throws Error the script is not the `app` of its route */
function sluice_handle_request(callable $handler): bool {}
