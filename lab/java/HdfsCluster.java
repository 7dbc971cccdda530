import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** An HDFS of Hadoop's own in one process: {@code HdfsCluster FOLDER NODES}. */
final class HdfsCluster {
    private HdfsCluster() {
    }

    /** Says where the name node is, and lives until standard input ends. */
    public static void main(String[] words) throws Exception {
        Configuration conf = new Configuration();
        conf.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, words[0]);
        try (MiniDFSCluster cluster = new MiniDFSCluster.Builder(conf).numDataNodes(Integer.parseInt(words[1])).build()) {
            cluster.waitActive();
            System.out.println("cluster: " + cluster.getURI());
            while (System.in.read() >= 0) {
                continue;
            }
        }
    }
}
