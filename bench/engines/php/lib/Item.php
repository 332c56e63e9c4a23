<?php
declare(strict_types=1);

final class Item
{
    public function __construct(
        public readonly int $number,
        public readonly string $title,
        public readonly int $price,
    ) {
    }
}
