<?php
/* sluice.php: the functions of the library for authors in PHP itself: for php-cgi (CGI) and for the command line's php (CGI and CGIplus).

       require_once '/usr/local/lib/sluice/php/sluice.php';
       while (sluice_accept()) {
           sluice_respond('text/plain');
           echo 'Hello, ', sluice_variable('REMOTE_ADDR'), "\n";
           sluice_finish();
       }

   Under the PHP engine of Sluice the functions are built in, and this file defines nothing. sluice.stub.php documents them.
   Not here: forms and uploads (sluice_form.php), and the ring of the memory buffer, which needs native code; sluice_buffer_write() makes a callout for each part instead. */

if (!function_exists('sluice_accept')) {
    /* What the functions share. Not for scripts. */
    final class SluiceProcess
    {
        public const FIELDS_MAX = 1000;
        public const FORM_BYTES_MAX = 8 << 20;
        public const CHUNK = 65536;

        public static $uses = 0;
        public static $isOpen = false;
        public static $variables = null;     // of a CGIplus request; null: the environment has them
        public static $bodyLeft = 0;
        public static $fields = null;        // name => values
        public static $uploads = [];
        public static $uploadLimit = 1 << 30;
        public static $buffer = null;        // [stream, bytes, bytes sent]
        private static $requests = null;
        private static $body = null;
        private static $mailbox = null;
        private static $isHeadSent = false;
        private static $hasHead = false;     // a function of the library makes the head; otherwise the script writes it itself
        public static $hasResponded = false; // sluice_respond(): a callout sends the head before it
        private static $fieldsOfHead = [];
        private static $status = 200;

        /* The command line's php writes no head and parses no form; php-cgi does both. */
        public static function isCommandLine() { return PHP_SAPI === 'cli'; }

        public static function isPersistent() { return self::isCommandLine() && (string) getenv('CGIPLUSEOF') !== ''; }

        /* PHP gives descriptors to the command line only, and cannot open /dev/fd/3, because it looks for the file behind the link. */
        public static function open($descriptor, $mode)
        {
            $stream = fopen("php://fd/$descriptor", $mode);
            if ($stream && $mode !== 'rb') stream_set_write_buffer($stream, 0);
            return $stream;
        }

        /* For php-cgi another process reads the line. */
        private static function lineByProcess()
        {
            $process = proc_open(['/bin/sh', '-c', 'IFS= read -r line <&3 && printf "%s\\n" "$line"'], [1 => ['pipe', 'w']], $pipes);
            $line = $process ? fgets($pipes[1]) : false;
            if ($process) proc_close($process);
            return $line;
        }

        public static function write($text)
        {
            self::$mailbox ??= self::isCommandLine() ? STDOUT : fopen('php://stdout', 'wb');
            for ($done = 0; $done < strlen($text); $done += $part) {
                $part = @fwrite(self::$mailbox, $done ? substr($text, $done) : $text);
                if (!$part) exit(1); // the server is gone
            }
        }

        /* A line of CGIPLUSIN without its end; false at end-of-file. */
        public static function line()
        {
            if (self::isCommandLine()) self::$requests ??= self::open(3, 'rb');
            $line = self::isCommandLine() ? fgets(self::$requests) : self::lineByProcess();
            return $line === false ? false : rtrim($line, "\n");
        }

        private static function readRequest()
        {
            do {
                $line = self::line();
                if ($line === false) return false;
            } while ($line !== '!'); // lines before it are answers that nobody has read
            self::$variables = [];
            while (($line = self::line()) !== false && $line !== '') {
                [$name, $value] = explode('=', $line, 2) + [1 => ''];
                self::$variables[$name] = $value;
            }
            return $line !== false;
        }

        public static function accept()
        {
            if (self::$isOpen) self::finish();
            if (self::isPersistent() ? !self::readRequest() : self::$uses > 0) return false;
            self::$uses++;
            self::$isOpen = true;
            self::$isHeadSent = self::$hasHead = self::$hasResponded = false;
            self::$fieldsOfHead = [];
            self::$status = 200;
            self::$fields = null;
            self::$uploads = [];
            self::$bodyLeft = (int) sluice_variable('CONTENT_LENGTH', '0');
            if (self::isCommandLine()) self::begin();
            return true;
        }

        /* Superglobals and the reply for the command line: all output passes send(), which puts the head before it. */
        private static function begin()
        {
            $_SERVER = sluice_variables() + $_SERVER;
            parse_str((string) sluice_variable('QUERY_STRING', ''), $_GET);
            ob_start([self::class, 'send'], self::CHUNK);
        }

        public static function send($text, $phase)
        {
            if ($phase & PHP_OUTPUT_HANDLER_CLEAN) return '';
            $isLast = ($phase & PHP_OUTPUT_HANDLER_FINAL) !== 0;
            if (!self::$isHeadSent && ($text !== '' || self::$hasHead)) {
                if (self::$hasHead) $text = self::head() . $text;
                self::$isHeadSent = true;
            }
            // A process that exits within a request has not finished its reply: without the sentinel the server knows.
            if ($isLast && !self::$isOpen && self::isPersistent()) $text .= getenv('CGIPLUSEOF');
            if ($text !== '') self::write($text);
            return '';
        }

        private static function head()
        {
            $lines = self::$fieldsOfHead;
            if (!preg_grep('/^content-type:/i', $lines) && self::$status !== 204 && self::$status !== 304) $lines[] = 'Content-Type: text/html; charset=UTF-8';
            if (self::$status !== 200) array_unshift($lines, 'Status: ' . self::$status);
            return implode("\r\n", $lines) . "\r\n\r\n";
        }

        /* The library makes the head. */
        public static function needHead() { self::$hasHead = true; }

        public static function setStatus($code)
        {
            self::needHead();
            self::$status = $code;
            if (!self::isCommandLine()) http_response_code($code);
        }

        /* header() of the command line's php keeps nothing. */
        public static function setField($name, $value)
        {
            self::needHead();
            $isSingle = in_array(strtolower($name), ['content-type', 'content-length', 'location'], true);
            if (!self::isCommandLine()) {
                header("$name: $value", $isSingle);
                if (strcasecmp($name, 'Location') === 0) http_response_code(self::$status === 200 ? 302 : self::$status);
                return;
            }
            if ($isSingle) self::$fieldsOfHead = preg_grep('/^' . preg_quote($name, '/') . ':/i', self::$fieldsOfHead, PREG_GREP_INVERT);
            if (strcasecmp($name, 'Location') === 0 && self::$status === 200) self::$status = 302;
            self::$fieldsOfHead[] = "$name: $value";
        }

        public static function clearHead()
        {
            self::$fieldsOfHead = [];
            if (!self::isCommandLine()) header_remove();
        }

        public static function isHeadSent() { return self::isCommandLine() ? self::$isHeadSent : headers_sent(); }

        public static function flush()
        {
            while (!self::isCommandLine() && ob_get_level()) ob_end_flush();
            if (self::isCommandLine()) ob_flush();
            flush();
        }

        public static function finish()
        {
            if (!self::$isOpen) return false;
            self::$isOpen = false;
            self::close();
            foreach (self::$uploads as $upload) {
                if (self::isCommandLine() && is_file($upload['path'])) unlink($upload['path']);
            }
            self::$bodyLeft = 0;
            self::$buffer = null;
            return true;
        }

        /* At the end of the request, or of a script that exits within it. */
        public static function close()
        {
            while (ob_get_level()) ob_end_flush();
            flush();
            foreach (self::$uploads as $upload) {
                if (self::isCommandLine() && is_file($upload['path'])) unlink($upload['path']);
            }
            self::$uploads = [];
        }

        public static function readBody($bytes)
        {
            if (!self::isCommandLine()) {
                self::$body ??= fopen('php://input', 'rb');
                return (string) fread(self::$body, $bytes);
            }
            if (!self::$body) {
                self::$body = self::open(0, 'rb');
                stream_set_read_buffer(self::$body, 0); // never ahead of CONTENT_LENGTH
            }
            $text = self::$bodyLeft > 0 ? (string) fread(self::$body, min($bytes, self::$bodyLeft)) : '';
            self::$bodyLeft = $text === '' ? 0 : self::$bodyLeft - strlen($text);
            return $text;
        }

        /* [code, text]; code -1: the server has no callouts. */
        public static function callout($request)
        {
            $escape = getenv('CGIPLUSESC') ?: getenv('WWW_GATEWAY_ESC');
            $close = getenv('CGIPLUSEOT') ?: getenv('WWW_GATEWAY_EOT');
            if (!$escape || !$close) return [-1, ''];
            if (self::isHeadSent() || self::$hasResponded) self::flush();
            self::write("$escape$request\n$close\n");
            if ($request[0] === '!' || $request[0] === '#') return [0, ''];
            $line = (string) self::line();
            return preg_match('/^\d{3}/', $line) ? [(int) $line, (string) substr($line, 4)] : [-1, ''];
        }

        public static function tooLarge($text) { throw new RuntimeException($text, 413); }

        public static function malformed() { throw new RuntimeException('the form is malformed, or incomplete', 400); }

        /* Browsers write %22 for a quote in a name (HTML, "multipart form data"). */
        public static function unquoted($name) { return str_replace('%22', '"', (string) $name); }

        private const REASONS = [
            400 => 'Bad Request', 401 => 'Unauthorized', 403 => 'Forbidden', 404 => 'Not Found', 405 => 'Method Not Allowed', 406 => 'Not Acceptable',
            408 => 'Request Timeout', 409 => 'Conflict', 410 => 'Gone', 411 => 'Length Required', 412 => 'Precondition Failed',
            413 => 'Content Too Large', 414 => 'URI Too Long', 415 => 'Unsupported Media Type', 416 => 'Range Not Satisfiable',
            422 => 'Unprocessable Content', 428 => 'Precondition Required', 429 => 'Too Many Requests', 500 => 'Internal Server Error',
            501 => 'Not Implemented', 502 => 'Bad Gateway', 503 => 'Service Unavailable', 504 => 'Gateway Timeout', 507 => 'Insufficient Storage',
        ];

        public static function reason($status) { return self::REASONS[$status] ?? 'Error'; }
    }

    require_once __DIR__ . '/sluice_form.php';

    function sluice_accept(): bool { return SluiceProcess::accept(); }

    function sluice_finish(): bool { return SluiceProcess::finish(); }

    function sluice_is_persistent(): bool { return SluiceProcess::isPersistent(); }

    function sluice_uses(): int { return SluiceProcess::$uses; }

    function sluice_variable(string $name, mixed $default = null): mixed
    {
        $plain = stripos($name, 'WWW_') === 0 ? substr($name, 4) : $name;
        foreach ([$name, strtoupper($name), strtoupper($plain), 'WWW_' . strtoupper($plain)] as $known) {
            $value = SluiceProcess::$variables[$known] ?? getenv($known);
            if ($value !== false) return $value;
        }
        return $default;
    }

    function sluice_variables(): array
    {
        $all = (SluiceProcess::$variables ?? []) + getenv();
        unset($all['CGIPLUSEOF']);
        return $all;
    }

    function sluice_body_read(int $bytes = 65536): string
    {
        if ($bytes <= 0) throw new ValueError('sluice_body_read(): Argument #1 ($bytes) must be greater than 0');
        return SluiceProcess::readBody($bytes);
    }

    function sluice_parameter(string $name, mixed $default = null): mixed { return sluice_fields_()["=$name"][0] ?? $default; }

    function sluice_parameters(string $name): array { return sluice_fields_()["=$name"] ?? []; }

    function sluice_parameter_names(): array
    {
        return array_map(fn ($name) => substr($name, 1), array_keys(sluice_fields_()));
    }

    function sluice_uploads(string $name): array
    {
        sluice_fields_();
        if (array_sum(array_column(SluiceProcess::$uploads, 'size')) > SluiceProcess::$uploadLimit) SluiceProcess::tooLarge('the uploads are larger than sluice_upload_limit()');
        return array_values(array_filter(SluiceProcess::$uploads, fn ($upload) => $upload['name'] === $name));
    }

    function sluice_upload(string $name): ?array { return sluice_uploads($name)[0] ?? null; }

    function sluice_upload_limit(int $bytes): void { SluiceProcess::$uploadLimit = $bytes; }

    function sluice_status(int $code): void
    {
        if ($code < 200 || $code > 599) throw new ValueError('sluice_status(): Argument #1 ($code) must be a status from 200 to 599');
        SluiceProcess::setStatus($code);
    }

    function sluice_header(string $name, string $value): void
    {
        if (!preg_match('/^[^\x00-\x20:]+$/D', $name)) throw new ValueError('sluice_header(): Argument #1 ($name) must be the name of a header field');
        if (preg_match('/[\x00-\x08\x0a-\x1f]/', $value)) throw new ValueError('sluice_header(): Argument #2 ($value) must not contain CR, LF or other control characters');
        SluiceProcess::setField($name, $value);
    }

    function sluice_respond(?string $type = null): bool
    {
        if (SluiceProcess::isHeadSent()) return false;
        SluiceProcess::needHead();
        SluiceProcess::$hasResponded = true;
        if ($type !== null) sluice_header('Content-Type', $type);
        // The head goes with the first part of the body, or at the end, in one write.
        return true;
    }

    function sluice_redirect(string $url, int $code = 302): void
    {
        if ($code < 300 || $code > 399) throw new ValueError('sluice_redirect(): Argument #2 ($code) must be a status from 300 to 399');
        sluice_header('Location', $url);
        SluiceProcess::setStatus($code);
    }

    function sluice_write(string $data): void
    {
        SluiceProcess::needHead();
        echo $data;
    }

    function sluice_flush(): void { SluiceProcess::flush(); }

    function sluice_event(string $data, ?string $name = null, ?string $id = null): bool
    {
        if (preg_match('/[\x00-\x08\x0a-\x1f]/', $name . $id)) throw new ValueError('sluice_event(): the name and the id of an event are one line each');
        if (!SluiceProcess::isHeadSent()) {
            SluiceProcess::setField('Content-Type', 'text/event-stream');
            SluiceProcess::setField('Cache-Control', 'no-cache');
        }
        $lines = preg_split('/\r\n|\r|\n/', $data);
        echo $name === null ? '' : "event: $name\n", $id === null ? '' : "id: $id\n", 'data: ', implode("\ndata: ", $lines), "\n\n";
        sluice_flush();
        return !connection_aborted();
    }

    function sluice_fail(int $status, ?string $text = null): void
    {
        if ($status < 400 || $status > 599) throw new ValueError('sluice_fail(): Argument #1 ($status) must be a status from 400 to 599');
        if (SluiceProcess::isHeadSent()) throw new RuntimeException('the head of the response has been sent', $status);
        while (ob_get_level() > (SluiceProcess::isCommandLine() ? 1 : 0)) ob_end_clean();
        if (ob_get_level()) ob_clean();
        SluiceProcess::clearHead();
        SluiceProcess::setStatus($status);
        SluiceProcess::setField('Content-Type', 'text/plain; charset=utf-8');
        echo "$status ", SluiceProcess::reason($status), "\n", (string) $text === '' ? '' : "$text\n";
    }

    function sluice_callout(string $request): array
    {
        if ($request === '' || strlen($request) > 8191 || preg_match('/[\x00-\x08\x0a-\x1f]/', $request)) throw new ValueError('sluice_callout(): Argument #1 ($request) must be one line of at most 8191 bytes');
        $answer = SluiceProcess::callout($request);
        if ($answer[0] < 0) throw new RuntimeException('the server does not answer callouts now');
        return $answer;
    }

    function sluice_one_callout_($keyword, $text)
    {
        [$code, $answer] = sluice_callout("$keyword: $text");
        return $code === 200 ? $answer : null;
    }

    function sluice_notice(string $text): ?string { return sluice_one_callout_('NOTICED', $text); }

    function sluice_watch(string $text): void
    {
        if (sluice_variable('WATCH_SCRIPT') !== null) SluiceProcess::callout('WATCH: ' . preg_replace('/[\x00-\x1f\x7f]+/', ' ', $text));
    }

    function sluice_map_path(string $path): ?string { return sluice_one_callout_('MAP-PATH', $path); }

    function sluice_map_file(string $file): ?string { return sluice_one_callout_('MAP-FILE', $file); }

    function sluice_lifetime(string $text): ?string { return sluice_one_callout_('LIFETIME', $text); }

    function sluice_buffer_begin(int $bytes = 0): int|false
    {
        if (SluiceProcess::$buffer || SluiceProcess::isHeadSent()) return false;
        if (!SluiceProcess::isCommandLine()) return false; // php-cgi cannot open descriptor 4
        [$code, $answer] = SluiceProcess::callout('BUFFER-BEGIN: ' . (int) ceil($bytes / 1024) . 'k');
        if ($code !== 200) return false;
        [$path, $size] = explode(' ', $answer);
        $stream = SluiceProcess::open((int) basename($path), 'r+b');
        if (!$stream) return false;
        SluiceProcess::$buffer = [$stream, (int) $size, 0];
        return (int) $size;
    }

    function sluice_buffer_write(string $data): bool
    {
        if (!SluiceProcess::$buffer) {
            sluice_write($data);
            return true;
        }
        [$stream, $size] = SluiceProcess::$buffer;
        if (!SluiceProcess::isHeadSent()) SluiceProcess::flush();
        foreach (strlen($data) > $size ? str_split($data, $size) : [$data] as $part) {
            if ($part === '') continue;
            rewind($stream);
            fwrite($stream, $part);
            if (SluiceProcess::callout('BUFFER-WRITE: ' . strlen($part))[0] !== 200) return false;
            SluiceProcess::$buffer[2] += strlen($part);
        }
        return true;
    }

    function sluice_buffer_end(): int|false
    {
        if (!SluiceProcess::$buffer) return false;
        [, , $sent] = SluiceProcess::$buffer;
        SluiceProcess::$buffer = null;
        return SluiceProcess::callout('BUFFER-END:')[0] === 200 ? $sent : false;
    }

    function sluice_escape_html(string $text): string
    {
        return strtr($text, ['&' => '&amp;', '<' => '&lt;', '>' => '&gt;', '"' => '&quot;', "'" => '&#39;']);
    }

    function sluice_url_encode(string $text): string { return rawurlencode($text); }

    function sluice_url_decode(string $text): string { return urldecode($text); }

    register_shutdown_function(function () {
        SluiceProcess::close(); // a script that has called exit()
    });
}
