import java.nio.file.FileSystems;
import java.nio.file.Path;
import java.nio.file.StandardWatchEventKinds;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/** Waits of the JVM that a signal, a file or a timer can end, by the word that is the argument. */
public class Handled {
    public static void main(String[] words) throws Exception {
        CountDownLatch latch = new CountDownLatch(1);
        switch (words[0]) {
            case "signal" -> {
                sun.misc.Signal.handle(new sun.misc.Signal("USR1"), signal -> latch.countDown());
                latch.await();
            }
            case "files" -> {
                var watcher = FileSystems.getDefault().newWatchService();
                Path.of(".").register(watcher, StandardWatchEventKinds.ENTRY_CREATE);
                watcher.take();
            }
            case "schedule" -> {
                var pool = Executors.newScheduledThreadPool(2);
                pool.schedule(latch::countDown, 300, TimeUnit.SECONDS);
                latch.await();
            }
            default -> throw new IllegalArgumentException(words[0]);
        }
    }
}
