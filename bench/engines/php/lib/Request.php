<?php
declare(strict_types=1);

final class Request
{
    private function __construct(public readonly string $path, private array $query)
    {
    }

    public static function ofServer(): self
    {
        return new self($_SERVER['PATH_INFO'] ?? '/', $_GET);
    }

    public function number(string $name, int $default): int
    {
        return (int) ($this->query[$name] ?? $default);
    }
}
