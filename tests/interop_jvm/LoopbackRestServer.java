import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.Scan;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.compression.gzip.GzipCompression;
import org.eclipse.jetty.compression.server.CompressionHandler;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.http.UriCompliance;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.Server;

/**
 * Iceberg's own REST catalog on the loopback interface: LoopbackRestServer PORT WAREHOUSE JDBC-URI [later].
 *
 * <p>With "later" it plans scans in the background, with two files to a plan task.
 */
public class LoopbackRestServer {
  public static void main(String[] arguments) throws Exception {
    Map<String, String> properties = new HashMap<>();
    properties.put("catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog");
    properties.put("warehouse", arguments[1]);
    properties.put("uri", arguments[2]);
    properties.put("jdbc.schema-version", "V1");
    boolean later = arguments.length > 3 && arguments[3].equals("later");
    RESTCatalogAdapter adapter =
        new RESTCatalogAdapter(CatalogUtil.buildIcebergCatalog("rest_backend", properties, new Configuration())) {
          @Override
          protected PlanningBehavior planningBehavior() {
            return new PlanningBehavior() {
              @Override
              public int numberFileScanTasksPerPlanTask() {
                return later ? 2 : 100;
              }

              @Override
              public boolean shouldPlanTableScanAsync(Scan<?, FileScanTask, ?> scan) {
                return later;
              }
            };
          }
        };
    ServletContextHandler context = new ServletContextHandler(ServletContextHandler.NO_SESSIONS);
    context.addServlet(new ServletHolder(new RESTCatalogServlet(adapter)), "/*");
    CompressionHandler compression = new CompressionHandler();
    compression.putCompression(new GzipCompression());
    context.insertHandler(compression);
    Server server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])));
    // Jetty refuses an encoded per cent sign by default; a name may hold one.
    server
        .getConnectors()[0]
        .getConnectionFactory(HttpConnectionFactory.class)
        .getHttpConfiguration()
        .setUriCompliance(UriCompliance.UNSAFE);
    context.getServletHandler().setDecodeAmbiguousURIs(true);
    server.setHandler(context);
    server.start();
    server.join();
  }
}
