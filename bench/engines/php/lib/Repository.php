<?php
declare(strict_types=1);

final class Repository
{
    /** @return Item[] */
    public function items(string $name, int $count): array
    {
        return array_map(static fn (int $at): Item => new Item($at, "Item $at <$name>", $at * 19), range(1, $count));
    }
}
