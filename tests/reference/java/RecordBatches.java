/*
 * Record batches made and read by Kafka's own classes.
 *
 *   java -cp 'LIBS/*' RecordBatches.java write           one batch a line: name TAB hex
 *   java -cp 'LIBS/*' RecordBatches.java read            batches in hex on standard input, one a line; for each a line
 *       with its records: offset,timestamp,key,value,header=value… separated by TABs; keys and values in hex, - for null
 */

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;

public class RecordBatches {
    static final long TIME = 1_700_000_000_000L;

    static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static SimpleRecord[] records() {
        SimpleRecord[] records = new SimpleRecord[40];
        for (int i = 0; i < records.length; i++) {
            Header[] headers = i % 10 == 3
                ? new Header[] {new RecordHeader("trace", utf8("id-" + i)), new RecordHeader("empty", null)}
                : new Header[0];
            records[i] = new SimpleRecord(TIME + i * 7L - (i % 3) * 20L, i % 6 == 5 ? null : utf8("key-" + i),
                i % 7 == 6 ? null : utf8("value-" + i + "-" + "x".repeat(i * 13)), headers);
        }
        return records;
    }

    static void write() {
        Map<String, Compression> codecs = new LinkedHashMap<>();
        codecs.put("none", Compression.NONE);
        codecs.put("gzip", Compression.gzip().build());
        codecs.put("snappy", Compression.snappy().build());
        codecs.put("lz4", Compression.lz4().build());
        codecs.put("zstd", Compression.zstd().build());
        codecs.forEach((name, codec) -> print(name, MemoryRecords.withRecords(codec, records())));
        print("log-append-time", MemoryRecords.withRecords(RecordBatch.CURRENT_MAGIC_VALUE, 1000L, Compression.NONE,
            TimestampType.LOG_APPEND_TIME, records()));
        print("idempotent", MemoryRecords.withIdempotentRecords(Compression.NONE, 7000L, (short) 3, 12345, records()));
        print("transactional",
            MemoryRecords.withTransactionalRecords(Compression.gzip().build(), 7001L, (short) 4, 0, records()));
        print("commit", MemoryRecords.withEndTransactionMarker(55L, TIME, 2, 7001L, (short) 4,
            new EndTransactionMarker(ControlRecordType.COMMIT, 9)));
        print("abort", MemoryRecords.withEndTransactionMarker(56L, TIME, 2, 7001L, (short) 4,
            new EndTransactionMarker(ControlRecordType.ABORT, 10)));
    }

    static void print(String name, MemoryRecords records) {
        ByteBuffer buffer = records.buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        System.out.println(name + "\t" + HexFormat.of().formatHex(bytes));
    }

    static String hex(ByteBuffer data) {
        if (data == null)
            return "-";
        byte[] bytes = new byte[data.remaining()];
        data.duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    static void read() throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(HexFormat.of().parseHex(line)));
            StringBuilder out = new StringBuilder();
            for (RecordBatch batch : records.batches()) {
                batch.ensureValid();
                for (org.apache.kafka.common.record.internal.Record record : batch) {
                    if (out.length() > 0)
                        out.append('\t');
                    out.append(record.offset()).append(',').append(record.timestamp());
                    out.append(',').append(hex(record.key())).append(',').append(hex(record.value()));
                    for (Header header : record.headers())
                        out.append(',').append(header.key()).append('=')
                            .append(hex(header.value() == null ? null : ByteBuffer.wrap(header.value())));
                }
            }
            System.out.println(out);
        }
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("write"))
            write();
        else
            read();
    }
}
