# Two processes lock two files in opposite orders.
use Fcntl ':flock';
my ($one, $other) = fork ? ('a', 'b') : ('b', 'a');
open my $first, '>', $one or die;
flock $first, LOCK_EX;
sleep 1;
open my $second, '>', $other or die;
flock $second, LOCK_EX;
wait;
