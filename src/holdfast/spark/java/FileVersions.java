package holdfast;

import com.google.common.collect.MapMaker;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.nio.file.attribute.FileTime;
import java.security.MessageDigest;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsAction;
import org.apache.hadoop.hdfs.protocol.HdfsFileStatus;

/** Tells versions of a file apart that agree in length and modification time. */
public final class FileVersions implements Function {
    static final String NOTHING = "";
    static final String LOCAL = "file:";
    // No file has this tag, so that what is read through such a listing is never kept.
    static final String NOT_AS_LISTED = "not as listed";
    /** What the tag of a directory begins with, see `FileVersion`. */
    static final String LISTS = "lists ";

    static final Pattern PATTERN = Pattern.compile("[*?\\[\\]{}\\\\]");

    final String between;
    // By the very object: another listing of a path may mean another version.
    final Map tags = new MapMaker().weakKeys().makeMap();

    /** @param between what is between the fields of `changed`'s files */
    public FileVersions(String between) {
        this.between = between;
    }

    /** The tag of a file that was listed, the same for as long as the listing is there. */
    public Object apply(Object listed) {
        FileStatus status = (FileStatus) listed;
        if (!"file".equals(status.getPath().toUri().getScheme())) {
            return tagOf(status);
        }
        Object known = tags.get(status);
        if (known == null) {
            String path = status.getPath().toUri().getPath();
            Object now = localTag(path, status.getLen(), status.getModificationTime());
            // Of several threads the first one says what has been listed.
            known = tags.putIfAbsent(status, now);
            return known == null ? now : known;
        }
        return known;
    }

    /**
     * The first file that isn't there any more as it was listed; an empty text where all are.
     *
     * @param listed of each file its path, length, modification time and tag
     */
    public String changed(String listed, Configuration settings) {
        String[] fields = listed.split(between, -1);
        Map directories = new HashMap();
        Map counts = new HashMap();
        for (int i = 0; i + 3 < fields.length; i += 4) {
            if (!fields[i].startsWith(LOCAL) && !fields[i + 3].startsWith(LISTS)) {
                Path parent = new Path(fields[i]).getParent();
                counts.put(parent, counts.containsKey(parent) ? "several" : "one");
            }
        }
        for (int i = 0; i + 3 < fields.length; i += 4) {
            long length = Long.parseLong(fields[i + 1]);
            long modified = Long.parseLong(fields[i + 2]);
            String tag = fields[i + 3];
            boolean same;
            try {
                if (tag.startsWith(LISTS)) {
                    same = tag.equals(directory(fields[i], settings)[1]);
                } else if (fields[i].startsWith(LOCAL)) {
                    // Hadoop's text of a path is no URL: nothing in it is escaped.
                    String now = localTag(fields[i].substring(LOCAL.length()), length, modified);
                    same = !now.equals(NOT_AS_LISTED) && (tag.isEmpty() || tag.equals(now));
                } else {
                    Path path = new Path(fields[i]);
                    FileStatus now = counts.get(path.getParent()).equals("one")
                            ? path.getFileSystem(settings).getFileStatus(path)
                            : (FileStatus) listing(path.getParent(), directories, settings)
                                    .get(path.getName());
                    same = now != null
                            && now.getLen() == length
                            && now.getModificationTime() == modified
                            && (tag.isEmpty() || tag.equals(tagOf(now)));
                }
            } catch (Exception error) {
                same = false;
            }
            if (!same) {
                return fields[i];
            }
        }
        return NOTHING;
    }

    /**
     * A directory's path, the tag that says which files are below it, and a list of these.
     *
     * What Hadoop's formats of files pass over is left out: names with a dot or a line before them.
     * Whether they go into directories is a setting: here they do.
     */
    static Object[] directory(String path, Configuration settings) throws Exception {
        if (PATTERN.matcher(path).find()) {
            // Hadoop's formats read what it matches.
            throw new IOException(path);
        }
        FileSystem system = new Path(path).getFileSystem(settings);
        Path root = system.makeQualified(new Path(path));
        List found = new ArrayList();
        ArrayDeque waiting = new ArrayDeque();
        waiting.push(root);
        MessageDigest names = MessageDigest.getInstance("SHA-256");
        while (!waiting.isEmpty()) {
            FileStatus[] statuses = system.listStatus((Path) waiting.pop());
            for (int i = 0; i < statuses.length; i++) {
                String name = statuses[i].getPath().getName();
                if (name.startsWith(".") || name.startsWith("_")) {
                    continue;
                } else if (statuses[i].isDirectory()) {
                    waiting.push(statuses[i].getPath());
                } else {
                    found.add(statuses[i]);
                }
            }
        }
        String[] paths = new String[found.size()];
        for (int i = 0; i < paths.length; i++) {
            paths[i] = String.valueOf(((FileStatus) found.get(i)).getPath());
        }
        Arrays.sort(paths);
        for (int i = 0; i < paths.length; i++) {
            names.update((paths[i] + '\n').getBytes(StandardCharsets.UTF_16LE));
        }
        String tag = LISTS + Base64.getEncoder().encodeToString(names.digest());
        return new Object[] {root.toString(), tag, found};
    }

    /** `directory` for classes that are compiled by themselves. */
    public BiFunction directories() {
        return new Directories();
    }

    static final class Directories implements BiFunction {
        public Object apply(Object path, Object settings) {
            try {
                return directory((String) path, (Configuration) settings);
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }
    }

    /** `changed` for classes that are compiled by themselves. */
    public BiFunction changes() {
        return new Changes(this);
    }

    static final class Changes implements BiFunction {
        final FileVersions versions;

        Changes(FileVersions versions) {
            this.versions = versions;
        }

        public Object apply(Object listed, Object settings) {
            return versions.changed((String) listed, (Configuration) settings);
        }
    }

    /**
     * The first file that the user may not read, or that isn't there; an empty text without one.
     *
     * @param files the path of each
     */
    public String unreadable(String files, Configuration settings) {
        String[] paths = files.split(between, -1);
        for (int i = 0; i < paths.length; i++) {
            try {
                if (paths[i].startsWith(LOCAL)) {
                    String local = paths[i].substring(LOCAL.length());
                    if (!Files.isReadable(Paths.get(local, new String[0]))) {
                        return paths[i];
                    }
                } else {
                    Path path = new Path(paths[i]);
                    path.getFileSystem(settings).access(path, FsAction.READ);
                }
            } catch (Exception error) {
                return paths[i];
            }
        }
        return NOTHING;
    }

    /** What a directory holds, by name: one question to a remote file system, not one a file. */
    static Map listing(Path directory, Map known, Configuration settings) throws IOException {
        Map found = (Map) known.get(directory);
        if (found == null) {
            found = new HashMap();
            FileSystem system = directory.getFileSystem(settings);
            FileStatus[] statuses = system.listStatus(directory);
            for (int i = 0; i < statuses.length; i++) {
                found.put(statuses[i].getPath().getName(), statuses[i]);
            }
            known.put(directory, found);
        }
        return found;
    }

    /** What a file system that isn't this machine's says in a listing. */
    static String tagOf(FileStatus status) {
        if (status instanceof HdfsFileStatus) {
            return "file id " + ((HdfsFileStatus) status).getFileId();
        }
        if (status instanceof EtagSource) {
            String etag = ((EtagSource) status).getEtag();
            return etag == null || etag.isEmpty() ? NOTHING : "etag " + etag;
        }
        return NOTHING;
    }

    /** The inode of a file of this machine, and when anything about it was changed. */
    static String localTag(String path, long length, long modified) {
        try {
            Map found = Files.readAttributes(
                    Paths.get(path, new String[0]),
                    "unix:ino,ctime,size,lastModifiedTime");
            boolean same = ((Long) found.get("size")).longValue() == length
                    && ((FileTime) found.get("lastModifiedTime")).toMillis() == modified;
            return same
                    ? "inode " + found.get("ino") + " changed "
                            + ((FileTime) found.get("ctime")).to(TimeUnit.NANOSECONDS)
                    : NOT_AS_LISTED;
        } catch (UnsupportedOperationException withoutInodes) {
            return NOTHING;
        } catch (IOException gone) {
            return NOT_AS_LISTED;
        }
    }
}
