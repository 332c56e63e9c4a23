# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_sluice_global_optspecs
    string join \n h/help V/version
end

function __fish_sluice_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_sluice_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_sluice_using_subcommand
    set -l cmd (__fish_sluice_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c sluice -n "__fish_sluice_needs_command" -s h -l help -d 'Print help'
complete -c sluice -n "__fish_sluice_needs_command" -s V -l version -d 'Print version'
complete -c sluice -n "__fish_sluice_needs_command" -f -a "serve" -d 'Serve a directory and run the programs in its cgi-bin; needs no configuration'
complete -c sluice -n "__fish_sluice_needs_command" -f -a "run" -d 'Serve what a configuration says'
complete -c sluice -n "__fish_sluice_needs_command" -f -a "check" -d 'Check a configuration: report what is wrong, where, and what to write instead'
complete -c sluice -n "__fish_sluice_needs_command" -f -a "demo" -d 'Serve the built-in site, which shows every way to run a script'
complete -c sluice -n "__fish_sluice_needs_command" -f -a "status" -d 'Print what a running server does: connections, requests, responses, script processes, cache'
complete -c sluice -n "__fish_sluice_needs_command" -f -a "reload" -d 'Have a running server read its configuration again, and print the result; kept script processes are replaced'
complete -c sluice -n "__fish_sluice_needs_command" -f -a "upgrade" -d 'Have the program that is now at the path of a running server go on with its sockets, and print the result; requests in progress end in the old one'
complete -c sluice -n "__fish_sluice_needs_command" -f -a "drain" -d 'End a running server after the requests in progress'
complete -c sluice -n "__fish_sluice_needs_command" -f -a "purge" -d 'Empty the file cache of a running server'
complete -c sluice -n "__fish_sluice_needs_command" -f -a "retire" -d 'End the processes of a script of a running server: idle ones at once, busy ones after their request'
complete -c sluice -n "__fish_sluice_needs_command" -f -a "end" -d 'End a request in progress of a running server, and stop its script process'
complete -c sluice -n "__fish_sluice_needs_command" -f -a "top" -d 'Watch a running server in the terminal: requests in progress, script processes, rates'
complete -c sluice -n "__fish_sluice_needs_command" -f -a "log" -d 'Commands about the logs of a running server'
complete -c sluice -n "__fish_sluice_needs_command" -f -a "watch" -d 'Show what happens to requests while a running server handles them: routes, scripts, callouts, bytes, times'
complete -c sluice -n "__fish_sluice_needs_command" -f -a "workout" -d 'Send requests to a server over several connections, compare each reply with the first, and print rate and latencies'
complete -c sluice -n "__fish_sluice_needs_command" -f -a "rate" -d 'Describe this machine and rate it: average, minimum and maximum'
complete -c sluice -n "__fish_sluice_needs_command" -f -a "passwd" -d 'Set, remove or verify the password of a user in a users file (htpasswd)'
complete -c sluice -n "__fish_sluice_needs_command" -f -a "stream-lf" -d 'Convert files of OpenVMS records to lines (stream-LF); each original is kept as FILE.orig'
complete -c sluice -n "__fish_sluice_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c sluice -n "__fish_sluice_using_subcommand serve" -l listen -d 'Address to listen on; may be repeated. 8080 and localhost:8080 mean this machine only, :8080 every IPv4 address, [::]:8080 every IPv6 address; with port 0 the system chooses the port; unix:/run/x.sock is a unix socket' -r
complete -c sluice -n "__fish_sluice_using_subcommand serve" -l host -d 'A host name that loopback addresses answer to, besides localhost, 127.0.0.1 and [::1]; may be repeated. Other addresses answer to every name' -r
complete -c sluice -n "__fish_sluice_using_subcommand serve" -l mailbox -d 'The channel for the output of scripts: stream; record, in which each write is a line, as scripts for WASD expect; or pipe, for scripts that open /dev/stdout' -r
complete -c sluice -n "__fish_sluice_using_subcommand serve" -l detail -d 'Clients that are shown the log message of an error, with the last lines that a failed script wrote to its standard error: local (clients on this machine, without a proxy), all, or off. Without a value: all [default: local if only loopback addresses are listened on, otherwise off]' -r -f -a "local\t''
all\t''
off\t''"
complete -c sluice -n "__fish_sluice_using_subcommand serve" -l workers -d 'Event-loop threads [default: one for each processor]' -r
complete -c sluice -n "__fish_sluice_using_subcommand serve" -l access-log -d 'The access log: a file, - for standard output, or off' -r -F
complete -c sluice -n "__fish_sluice_using_subcommand serve" -l log-format -d 'The format of the access log: common, combined, vhost-combined, json, or a format string in the notation of Apache\'s mod_log_config' -r
complete -c sluice -n "__fish_sluice_using_subcommand serve" -l sdk -d 'The directory with the engines of Python, Perl and PHP that run DIR/rte, as sdk of a checkout [default: beside the program, then /usr/local/lib/sluice and /usr/lib/sluice]' -r -F
complete -c sluice -n "__fish_sluice_using_subcommand serve" -l tls -d 'Serve https with a new self-signed certificate, for local use'
complete -c sluice -n "__fish_sluice_using_subcommand serve" -l listing -d 'List directories that have no index page'
complete -c sluice -n "__fish_sluice_using_subcommand serve" -l allow-root -d 'Run as root, although every script then runs as root too'
complete -c sluice -n "__fish_sluice_using_subcommand serve" -s h -l help -d 'Print help'
complete -c sluice -n "__fish_sluice_using_subcommand run" -s c -l config -d 'The configuration file [default: sluice.toml in this directory, or else /etc/sluice/sluice.toml]' -r -F
complete -c sluice -n "__fish_sluice_using_subcommand run" -l allow-root -d 'Run as root, although every script then runs as root too'
complete -c sluice -n "__fish_sluice_using_subcommand run" -s h -l help -d 'Print help'
complete -c sluice -n "__fish_sluice_using_subcommand check" -s c -l config -d 'The configuration file [default: sluice.toml in this directory, or else /etc/sluice/sluice.toml]' -r -F
complete -c sluice -n "__fish_sluice_using_subcommand check" -l run-as -d 'The user who starts the server, for whom root checks that files can be read and engines start; by default `user` of `[server]`, or the owner of the control socket' -r
complete -c sluice -n "__fish_sluice_using_subcommand check" -l explain -d 'Show how the routes would handle a request for this URL or path, and why' -r
complete -c sluice -n "__fish_sluice_using_subcommand check" -l method -d 'The method of the request' -r
complete -c sluice -n "__fish_sluice_using_subcommand check" -l header -d 'A field of the request; may be repeated' -r
complete -c sluice -n "__fish_sluice_using_subcommand check" -l client -d 'The address of the client' -r
complete -c sluice -n "__fish_sluice_using_subcommand check" -l certificate -d 'The client has such a certificate, with this subject: CN=ann,O=Example' -r
complete -c sluice -n "__fish_sluice_using_subcommand check" -l user -d 'The user of the request, whose password is taken as right' -r
complete -c sluice -n "__fish_sluice_using_subcommand check" -l json -d 'Print mistakes, warnings and the summary as JSON'
complete -c sluice -n "__fish_sluice_using_subcommand check" -s q -l quiet -d 'Print mistakes and warnings only'
complete -c sluice -n "__fish_sluice_using_subcommand check" -l client-certificate -d 'The client has a certificate of the site\'s authorities'
complete -c sluice -n "__fish_sluice_using_subcommand check" -s h -l help -d 'Print help'
complete -c sluice -n "__fish_sluice_using_subcommand demo" -l listen -d 'Address to listen on; may be repeated. 8080 and localhost:8080 mean this machine only, :8080 every IPv4 address, [::]:8080 every IPv6 address; with port 0 the system chooses the port; unix:/run/x.sock is a unix socket' -r
complete -c sluice -n "__fish_sluice_using_subcommand demo" -l host -d 'A host name that loopback addresses answer to, besides localhost, 127.0.0.1 and [::1]; may be repeated. Other addresses answer to every name' -r
complete -c sluice -n "__fish_sluice_using_subcommand demo" -l sdk -d 'The directory with the engines of Python, Perl and PHP, as sdk of a checkout [default: beside the program, then /usr/local/lib/sluice and /usr/lib/sluice]' -r -F
complete -c sluice -n "__fish_sluice_using_subcommand demo" -l tls -d 'Serve https with a new self-signed certificate, for local use'
complete -c sluice -n "__fish_sluice_using_subcommand demo" -l allow-root -d 'Run as root on addresses that other machines can reach, although every script then runs as root too'
complete -c sluice -n "__fish_sluice_using_subcommand demo" -s h -l help -d 'Print help'
complete -c sluice -n "__fish_sluice_using_subcommand status" -l server -d 'The server: its process id, or the path of its socket (key `control` of `[server]`)' -r
complete -c sluice -n "__fish_sluice_using_subcommand status" -s c -l config -d 'The server that runs this configuration file, or has its control socket' -r -F
complete -c sluice -n "__fish_sluice_using_subcommand status" -l json -d 'Print the answer as JSON'
complete -c sluice -n "__fish_sluice_using_subcommand status" -s h -l help -d 'Print help'
complete -c sluice -n "__fish_sluice_using_subcommand reload" -l server -d 'The server: its process id, or the path of its socket (key `control` of `[server]`)' -r
complete -c sluice -n "__fish_sluice_using_subcommand reload" -s c -l config -d 'The server that runs this configuration file, or has its control socket' -r -F
complete -c sluice -n "__fish_sluice_using_subcommand reload" -l json -d 'Print the answer as JSON'
complete -c sluice -n "__fish_sluice_using_subcommand reload" -s h -l help -d 'Print help'
complete -c sluice -n "__fish_sluice_using_subcommand upgrade" -l server -d 'The server: its process id, or the path of its socket (key `control` of `[server]`)' -r
complete -c sluice -n "__fish_sluice_using_subcommand upgrade" -s c -l config -d 'The server that runs this configuration file, or has its control socket' -r -F
complete -c sluice -n "__fish_sluice_using_subcommand upgrade" -l json -d 'Print the answer as JSON'
complete -c sluice -n "__fish_sluice_using_subcommand upgrade" -s h -l help -d 'Print help'
complete -c sluice -n "__fish_sluice_using_subcommand drain" -l server -d 'The server: its process id, or the path of its socket (key `control` of `[server]`)' -r
complete -c sluice -n "__fish_sluice_using_subcommand drain" -s c -l config -d 'The server that runs this configuration file, or has its control socket' -r -F
complete -c sluice -n "__fish_sluice_using_subcommand drain" -l json -d 'Print the answer as JSON'
complete -c sluice -n "__fish_sluice_using_subcommand drain" -s h -l help -d 'Print help'
complete -c sluice -n "__fish_sluice_using_subcommand purge" -l server -d 'The server: its process id, or the path of its socket (key `control` of `[server]`)' -r
complete -c sluice -n "__fish_sluice_using_subcommand purge" -s c -l config -d 'The server that runs this configuration file, or has its control socket' -r -F
complete -c sluice -n "__fish_sluice_using_subcommand purge" -l json -d 'Print the answer as JSON'
complete -c sluice -n "__fish_sluice_using_subcommand purge" -s h -l help -d 'Print help'
complete -c sluice -n "__fish_sluice_using_subcommand retire" -l server -d 'The server: its process id, or the path of its socket (key `control` of `[server]`)' -r
complete -c sluice -n "__fish_sluice_using_subcommand retire" -s c -l config -d 'The server that runs this configuration file, or has its control socket' -r -F
complete -c sluice -n "__fish_sluice_using_subcommand retire" -l json -d 'Print the answer as JSON'
complete -c sluice -n "__fish_sluice_using_subcommand retire" -s h -l help -d 'Print help'
complete -c sluice -n "__fish_sluice_using_subcommand end" -l server -d 'The server: its process id, or the path of its socket (key `control` of `[server]`)' -r
complete -c sluice -n "__fish_sluice_using_subcommand end" -s c -l config -d 'The server that runs this configuration file, or has its control socket' -r -F
complete -c sluice -n "__fish_sluice_using_subcommand end" -l json -d 'Print the answer as JSON'
complete -c sluice -n "__fish_sluice_using_subcommand end" -s h -l help -d 'Print help'
complete -c sluice -n "__fish_sluice_using_subcommand top" -l server -d 'The server: its process id, or the path of its socket (key `control` of `[server]`)' -r
complete -c sluice -n "__fish_sluice_using_subcommand top" -s c -l config -d 'The server that runs this configuration file, or has its control socket' -r -F
complete -c sluice -n "__fish_sluice_using_subcommand top" -l interval -d 'Seconds between two questions to the server' -r
complete -c sluice -n "__fish_sluice_using_subcommand top" -l filter -d 'Show only lines that contain this text' -r
complete -c sluice -n "__fish_sluice_using_subcommand top" -l once -d 'Print one frame as text, and end'
complete -c sluice -n "__fish_sluice_using_subcommand top" -l json -d 'Print what the server answers as JSON, and end'
complete -c sluice -n "__fish_sluice_using_subcommand top" -s h -l help -d 'Print help'
complete -c sluice -n "__fish_sluice_using_subcommand log; and not __fish_seen_subcommand_from reopen help" -s h -l help -d 'Print help'
complete -c sluice -n "__fish_sluice_using_subcommand log; and not __fish_seen_subcommand_from reopen help" -f -a "reopen" -d 'Have a running server open its logs again, after they were renamed'
complete -c sluice -n "__fish_sluice_using_subcommand log; and not __fish_seen_subcommand_from reopen help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c sluice -n "__fish_sluice_using_subcommand log; and __fish_seen_subcommand_from reopen" -l server -d 'The server: its process id, or the path of its socket (key `control` of `[server]`)' -r
complete -c sluice -n "__fish_sluice_using_subcommand log; and __fish_seen_subcommand_from reopen" -s c -l config -d 'The server that runs this configuration file, or has its control socket' -r -F
complete -c sluice -n "__fish_sluice_using_subcommand log; and __fish_seen_subcommand_from reopen" -l json -d 'Print the answer as JSON'
complete -c sluice -n "__fish_sluice_using_subcommand log; and __fish_seen_subcommand_from reopen" -s h -l help -d 'Print help'
complete -c sluice -n "__fish_sluice_using_subcommand log; and __fish_seen_subcommand_from help" -f -a "reopen" -d 'Have a running server open its logs again, after they were renamed'
complete -c sluice -n "__fish_sluice_using_subcommand log; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c sluice -n "__fish_sluice_using_subcommand watch" -s i -l items -d 'The items to show: a list of items and groups; a - before a name removes it [default: usual]' -r
complete -c sluice -n "__fish_sluice_using_subcommand watch" -l client -d 'Only requests from this client: its address' -r
complete -c sluice -n "__fish_sluice_using_subcommand watch" -l site -d 'Only requests to this site: its name' -r
complete -c sluice -n "__fish_sluice_using_subcommand watch" -s p -l path -d 'Only requests with this path: /cgi-bin/*' -r
complete -c sluice -n "__fish_sluice_using_subcommand watch" -l method -d 'Only requests with this method' -r
complete -c sluice -n "__fish_sluice_using_subcommand watch" -l status -d 'Only requests with this status, 404, or of this class, 5xx' -r
complete -c sluice -n "__fish_sluice_using_subcommand watch" -l script -d 'Only requests that this script answers: its file' -r
complete -c sluice -n "__fish_sluice_using_subcommand watch" -l user -d 'Only requests of this user' -r
complete -c sluice -n "__fish_sluice_using_subcommand watch" -l id -d 'Only the request with this id, which logs, error pages and `sluice top` show' -r
complete -c sluice -n "__fish_sluice_using_subcommand watch" -l slower-than -d 'Only requests that take longer: 500ms, 2s' -r
complete -c sluice -n "__fish_sluice_using_subcommand watch" -l trigger -d 'Show a request once this has happened to it, and what came before: bytes=TEXT (the text in what the client or the server sends), status>=500, or slower=2s. May be repeated; one of them suffices' -r
complete -c sluice -n "__fish_sluice_using_subcommand watch" -l octets-max -d 'Bytes of bodies, mailboxes and connections that are shown of a request [default: 64k]' -r
complete -c sluice -n "__fish_sluice_using_subcommand watch" -s o -l output -d 'Write to this file, which only you can read, instead of standard output. A file of this name is replaced; a symbolic link is refused' -r -F
complete -c sluice -n "__fish_sluice_using_subcommand watch" -l seconds -d 'End after so many seconds' -r
complete -c sluice -n "__fish_sluice_using_subcommand watch" -l server -d 'The server: its process id, or the path of its socket (key `control` of `[server]`)' -r
complete -c sluice -n "__fish_sluice_using_subcommand watch" -s c -l config -d 'The server that runs this configuration file, or has its control socket' -r -F
complete -c sluice -n "__fish_sluice_using_subcommand watch" -s 1 -l once -d 'End with the first request that is shown: the next one that begins, or the one with --id'
complete -c sluice -n "__fish_sluice_using_subcommand watch" -l json -d 'Write each event as a JSON object, in a line of its own'
complete -c sluice -n "__fish_sluice_using_subcommand watch" -l waterfall -d 'Show at the end of each request where its time went, as bars; adds the item timing. In ASCII unless the locale is UTF-8'
complete -c sluice -n "__fish_sluice_using_subcommand watch" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sluice -n "__fish_sluice_using_subcommand workout" -s p -l path -d 'Another path of that server, with its query; may be repeated. With -p the path `/` of a URL is not requested by itself' -r
complete -c sluice -n "__fish_sluice_using_subcommand workout" -s c -l connections -d 'Concurrent connections; each has one request under way at a time' -r
complete -c sluice -n "__fish_sluice_using_subcommand workout" -s n -l requests -d 'Requests in all' -r
complete -c sluice -n "__fish_sluice_using_subcommand workout" -s d -l duration -d 'Send requests for this long (10s, 2m) instead of a number of them' -r
complete -c sluice -n "__fish_sluice_using_subcommand workout" -s t -l threads -d 'Threads of this client, which share the connections' -r
complete -c sluice -n "__fish_sluice_using_subcommand workout" -l method -d 'The method of the requests [default: GET, or POST with a body]' -r
complete -c sluice -n "__fish_sluice_using_subcommand workout" -s H -l header -d 'A field of the requests; may be repeated' -r
complete -c sluice -n "__fish_sluice_using_subcommand workout" -l body -d 'Send this file as the body of each request' -r -F
complete -c sluice -n "__fish_sluice_using_subcommand workout" -l compare -d 'The part that must be the same in all replies for a path. `length` is for replies that contain a time or a counter, `status` for those of any length' -r -f -a "status\t'The status'
length\t'Status and length'
body\t'Status, length and every byte of the body'"
complete -c sluice -n "__fish_sluice_using_subcommand workout" -l break -d 'Break the connection off in the middle of each N-th reply on purpose' -r
complete -c sluice -n "__fish_sluice_using_subcommand workout" -l timeout -d 'The longest wait for one reply' -r
complete -c sluice -n "__fish_sluice_using_subcommand workout" -l unix -d 'Connect to this unix socket; the URL then gives only the Host field and the path' -r -F
complete -c sluice -n "__fish_sluice_using_subcommand workout" -l ca -d 'Trust the authorities in this PEM file instead of those of the system' -r -F
complete -c sluice -n "__fish_sluice_using_subcommand workout" -l no-keep-alive -d 'Open a new connection for each request'
complete -c sluice -n "__fish_sluice_using_subcommand workout" -l http2 -d 'Use HTTP/2: over TLS if the server agrees to it, in clear text with prior knowledge'
complete -c sluice -n "__fish_sluice_using_subcommand workout" -l any-status -d 'Measure error pages too: without this, a first reply with a status of 400 or more ends the run'
complete -c sluice -n "__fish_sluice_using_subcommand workout" -l insecure -d 'Accept any certificate'
complete -c sluice -n "__fish_sluice_using_subcommand workout" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sluice -n "__fish_sluice_using_subcommand rate" -l samples -d 'Samples of each exercise' -r
complete -c sluice -n "__fish_sluice_using_subcommand rate" -l time -d 'The time of a sample' -r
complete -c sluice -n "__fish_sluice_using_subcommand rate" -s h -l help -d 'Print help'
complete -c sluice -n "__fish_sluice_using_subcommand passwd" -l create -d 'Make the file if it does not exist'
complete -c sluice -n "__fish_sluice_using_subcommand passwd" -l delete -d 'Remove the user'
complete -c sluice -n "__fish_sluice_using_subcommand passwd" -l verify -d 'Verify the password of the user, and change nothing'
complete -c sluice -n "__fish_sluice_using_subcommand passwd" -s h -l help -d 'Print help'
complete -c sluice -n "__fish_sluice_using_subcommand stream-lf" -l format -d 'The record format of the files: variable, vfc, vfc:N or fixed:N' -r
complete -c sluice -n "__fish_sluice_using_subcommand stream-lf" -s h -l help -d 'Print help'
complete -c sluice -n "__fish_sluice_using_subcommand help; and not __fish_seen_subcommand_from serve run check demo status reload upgrade drain purge retire end top log watch workout rate passwd stream-lf help" -f -a "serve" -d 'Serve a directory and run the programs in its cgi-bin; needs no configuration'
complete -c sluice -n "__fish_sluice_using_subcommand help; and not __fish_seen_subcommand_from serve run check demo status reload upgrade drain purge retire end top log watch workout rate passwd stream-lf help" -f -a "run" -d 'Serve what a configuration says'
complete -c sluice -n "__fish_sluice_using_subcommand help; and not __fish_seen_subcommand_from serve run check demo status reload upgrade drain purge retire end top log watch workout rate passwd stream-lf help" -f -a "check" -d 'Check a configuration: report what is wrong, where, and what to write instead'
complete -c sluice -n "__fish_sluice_using_subcommand help; and not __fish_seen_subcommand_from serve run check demo status reload upgrade drain purge retire end top log watch workout rate passwd stream-lf help" -f -a "demo" -d 'Serve the built-in site, which shows every way to run a script'
complete -c sluice -n "__fish_sluice_using_subcommand help; and not __fish_seen_subcommand_from serve run check demo status reload upgrade drain purge retire end top log watch workout rate passwd stream-lf help" -f -a "status" -d 'Print what a running server does: connections, requests, responses, script processes, cache'
complete -c sluice -n "__fish_sluice_using_subcommand help; and not __fish_seen_subcommand_from serve run check demo status reload upgrade drain purge retire end top log watch workout rate passwd stream-lf help" -f -a "reload" -d 'Have a running server read its configuration again, and print the result; kept script processes are replaced'
complete -c sluice -n "__fish_sluice_using_subcommand help; and not __fish_seen_subcommand_from serve run check demo status reload upgrade drain purge retire end top log watch workout rate passwd stream-lf help" -f -a "upgrade" -d 'Have the program that is now at the path of a running server go on with its sockets, and print the result; requests in progress end in the old one'
complete -c sluice -n "__fish_sluice_using_subcommand help; and not __fish_seen_subcommand_from serve run check demo status reload upgrade drain purge retire end top log watch workout rate passwd stream-lf help" -f -a "drain" -d 'End a running server after the requests in progress'
complete -c sluice -n "__fish_sluice_using_subcommand help; and not __fish_seen_subcommand_from serve run check demo status reload upgrade drain purge retire end top log watch workout rate passwd stream-lf help" -f -a "purge" -d 'Empty the file cache of a running server'
complete -c sluice -n "__fish_sluice_using_subcommand help; and not __fish_seen_subcommand_from serve run check demo status reload upgrade drain purge retire end top log watch workout rate passwd stream-lf help" -f -a "retire" -d 'End the processes of a script of a running server: idle ones at once, busy ones after their request'
complete -c sluice -n "__fish_sluice_using_subcommand help; and not __fish_seen_subcommand_from serve run check demo status reload upgrade drain purge retire end top log watch workout rate passwd stream-lf help" -f -a "end" -d 'End a request in progress of a running server, and stop its script process'
complete -c sluice -n "__fish_sluice_using_subcommand help; and not __fish_seen_subcommand_from serve run check demo status reload upgrade drain purge retire end top log watch workout rate passwd stream-lf help" -f -a "top" -d 'Watch a running server in the terminal: requests in progress, script processes, rates'
complete -c sluice -n "__fish_sluice_using_subcommand help; and not __fish_seen_subcommand_from serve run check demo status reload upgrade drain purge retire end top log watch workout rate passwd stream-lf help" -f -a "log" -d 'Commands about the logs of a running server'
complete -c sluice -n "__fish_sluice_using_subcommand help; and not __fish_seen_subcommand_from serve run check demo status reload upgrade drain purge retire end top log watch workout rate passwd stream-lf help" -f -a "watch" -d 'Show what happens to requests while a running server handles them: routes, scripts, callouts, bytes, times'
complete -c sluice -n "__fish_sluice_using_subcommand help; and not __fish_seen_subcommand_from serve run check demo status reload upgrade drain purge retire end top log watch workout rate passwd stream-lf help" -f -a "workout" -d 'Send requests to a server over several connections, compare each reply with the first, and print rate and latencies'
complete -c sluice -n "__fish_sluice_using_subcommand help; and not __fish_seen_subcommand_from serve run check demo status reload upgrade drain purge retire end top log watch workout rate passwd stream-lf help" -f -a "rate" -d 'Describe this machine and rate it: average, minimum and maximum'
complete -c sluice -n "__fish_sluice_using_subcommand help; and not __fish_seen_subcommand_from serve run check demo status reload upgrade drain purge retire end top log watch workout rate passwd stream-lf help" -f -a "passwd" -d 'Set, remove or verify the password of a user in a users file (htpasswd)'
complete -c sluice -n "__fish_sluice_using_subcommand help; and not __fish_seen_subcommand_from serve run check demo status reload upgrade drain purge retire end top log watch workout rate passwd stream-lf help" -f -a "stream-lf" -d 'Convert files of OpenVMS records to lines (stream-LF); each original is kept as FILE.orig'
complete -c sluice -n "__fish_sluice_using_subcommand help; and not __fish_seen_subcommand_from serve run check demo status reload upgrade drain purge retire end top log watch workout rate passwd stream-lf help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c sluice -n "__fish_sluice_using_subcommand help; and __fish_seen_subcommand_from log" -f -a "reopen" -d 'Have a running server open its logs again, after they were renamed'
