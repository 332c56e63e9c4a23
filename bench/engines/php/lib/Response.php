<?php
declare(strict_types=1);

final class Response
{
    public function __construct(private string $body, private int $status = 200)
    {
    }

    public function send(): void
    {
        http_response_code($this->status);
        header('Content-Type: text/html; charset=utf-8');
        header('Content-Length: ' . strlen($this->body));
        echo $this->body;
    }
}
