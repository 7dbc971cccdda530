package onefold.spark;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import onefold.incremental.input.SplitCodec;
import onefold.incremental.layout.SplitRef;
import onefold.incremental.split.Fingerprint;

/**
 * One result that a task replays or computes: that of a split, or of a node of a reduce tree.
 *
 * @param index number in the plan
 * @param name the entry's name in the memo: the split's fingerprint, or what stands for the node
 * @param split what a split's result is computed from; null for a node
 * @param children the entries that a node's result is computed from, in order; empty for a split
 * @param part which part of the children's results the node combines, or which part of a split's result
 *     is wanted; {@link #ALL} for all of it
 * @param isVerified whether the result is computed although it is known, and compared
 */
record Item(int index, Fingerprint name, SplitRef split, List<Child> children, int part, boolean isVerified) {
    static final int ALL = -1;

    /** An entry below a node; {@code isSplit} tells that it has all parts. */
    record Child(Fingerprint name, boolean isSplit) {
    }

    static Item ofSplit(int index, SplitRef split, int part, boolean isVerified) {
        return new Item(index, split.fingerprint(), split, List.of(), part, isVerified);
    }

    void write(DataOutput out) throws IOException {
        out.writeInt(index);
        out.write(name.bytes());
        out.writeBoolean(split != null);
        if (split != null) {
            SplitCodec.write(out, split);
        }
        out.writeInt(children.size());
        for (Child child : children) {
            out.write(child.name.bytes());
            out.writeBoolean(child.isSplit);
        }
        out.writeInt(part);
        out.writeBoolean(isVerified);
    }

    static Item read(DataInput in) throws IOException {
        int index = in.readInt();
        Fingerprint name = readName(in);
        SplitRef split = in.readBoolean() ? SplitCodec.read(in) : null;
        int count = in.readInt();
        List<Child> children = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            children.add(new Child(readName(in), in.readBoolean()));
        }
        return new Item(index, name, split, children, in.readInt(), in.readBoolean());
    }

    static Fingerprint readName(DataInput in) throws IOException {
        byte[] bytes = new byte[Fingerprint.LENGTH];
        in.readFully(bytes);
        return Fingerprint.of(bytes);
    }
}
