package Site;

# A small Dancer2 application: a page from a template (Template Toolkit) within a layout.
use Dancer2;
use File::Basename;

set appdir    => dirname(__FILE__);
set views     => dirname(__FILE__) . '/views';
set template  => 'template_toolkit';
set layout    => 'main';
set charset   => 'UTF-8';
set logger    => 'null';

get '/app/list/:name' => sub {
    my $name  = route_parameters->get('name');
    my $count = query_parameters->get('n') || 10;
    my @items = map { { number => $_, title => "Item $_ <$name>", price => $_ * 19 } } 1 .. $count;
    template list => { name => $name, items => \@items };
};

1;
