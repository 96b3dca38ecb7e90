package replication.transform;

import java.io.Serial;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Like;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.RLike;
import org.apache.spark.sql.catalyst.expressions.RegExpExtract;
import org.apache.spark.sql.catalyst.expressions.RegExpExtractAll;
import org.apache.spark.sql.catalyst.expressions.RegExpExtractBase$;
import org.apache.spark.sql.catalyst.expressions.RegExpInStr;
import org.apache.spark.sql.catalyst.expressions.RegExpReplace;
import org.apache.spark.sql.catalyst.expressions.StringLPad;
import org.apache.spark.sql.catalyst.expressions.StringRPad;
import org.apache.spark.sql.catalyst.expressions.StringRepeat;
import org.apache.spark.sql.catalyst.expressions.StringSpace;
import org.apache.spark.sql.catalyst.expressions.StringSplit;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.catalyst.util.StringUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's functions that one record can let run for ever, or ask for all memory, with an end.
 *
 * <p>Java's patterns cannot be interrupted, but the text can that they look at. The end is a number
 * of looks and not a time, so that the same record fails wherever it is evaluated.
 */
public final class Bounded {
  static final String POSSESSIVE =
      "Write possessive quantifiers, such as [^\"\\\\]++, which do not try again what has matched";

  private static final long MOST_LOOKS = 200_000_000; // a few seconds
  private static final long MOST_BYTES = 100 << 20; // a broker's socket.request.max.bytes
  private static final int MOST_PATTERNS = 32;

  private static final ThreadLocal<Map<UTF8String, Pattern>> PATTERNS =
      ThreadLocal.withInitial(
          () ->
              new LinkedHashMap<>(16, 0.75f, true) {
                @Serial private static final long serialVersionUID = 1L;

                @Override
                protected boolean removeEldestEntry(Map.Entry<UTF8String, Pattern> eldest) {
                  return size() > MOST_PATTERNS;
                }
              });

  private Bounded() {}

  /** An evaluation has come to its end; an error, which Spark's try functions let through. */
  static final class Exceeded extends Error {
    @Serial private static final long serialVersionUID = 1L;

    final String what;
    final String step;

    Exceeded(String what, String step) {
      super(what, null, false, false);
      this.what = what;
      this.step = step;
    }
  }

  /** The same expression with an end in each part that needs one. */
  static Expression of(Expression expression) {
    Expression at = expression.mapChildren(Bounded::of);
    List<Expression> parts = CollectionConverters.asJava(at.children());
    if (at instanceof RLike) {
      return call("rlike", at, parts);
    } else if (at instanceof Like like) {
      UTF8String escape = UTF8String.fromString(String.valueOf(like.escapeChar()));
      Expression literal = new Literal(escape, DataTypes.StringType);
      return call("like", at, List.of(like.left(), like.right(), literal));
    } else if (at instanceof RegExpReplace) {
      return call("replace", at, parts);
    } else if (at instanceof RegExpExtract) {
      return call("extract", at, parts);
    } else if (at instanceof RegExpExtractAll) {
      return call("extractAll", at, parts);
    } else if (at instanceof RegExpInStr) {
      return call("inStr", at, parts);
    } else if (at instanceof StringSplit) {
      return call("split", at, parts);
    } else if (at instanceof StringRepeat) {
      return call("repeat", at, parts);
    } else if (at instanceof StringSpace) {
      return call("space", at, parts);
    } else if (at instanceof StringLPad) {
      return call("lpad", at, parts);
    } else if (at instanceof StringRPad) {
      return call("rpad", at, parts);
    }
    return at;
  }

  private static Expression call(String name, Expression at, List<Expression> parts) {
    for (Expression part : parts) {
      DataType type = part.dataType();
      if (!type.equals(DataTypes.StringType) && !type.equals(DataTypes.IntegerType)) {
        return at; // strings of a collation, or binary ones
      }
    }
    return new StaticInvoke(
        Bounded.class,
        at.dataType(),
        name,
        CollectionConverters.asScala(parts).toSeq(),
        CollectionConverters.asScala(List.<org.apache.spark.sql.types.AbstractDataType>of())
            .toSeq(),
        true,
        true,
        true,
        Option.empty());
  }

  /** A text that a pattern can look at only so often. */
  private static final class Text implements CharSequence {
    private final String text;
    private long left = MOST_LOOKS;

    Text(UTF8String text) {
      this.text = text.toString();
    }

    @Override
    public char charAt(int index) {
      if (--left < 0) {
        throw new Exceeded(
            "takes too long",
            "the match of a pattern has looked at "
                + MOST_LOOKS
                + " characters and goes on. "
                + POSSESSIVE);
      }
      return text.charAt(index);
    }

    @Override
    public int length() {
      return text.length();
    }

    @Override
    public CharSequence subSequence(int start, int end) {
      return text.substring(start, end);
    }

    @Override
    public String toString() {
      return text;
    }
  }

  private static Pattern pattern(UTF8String regex) {
    Map<UTF8String, Pattern> known = PATTERNS.get();
    Pattern pattern = known.get(regex);
    if (pattern == null) {
      pattern = Pattern.compile(regex.toString());
      known.put(regex.clone(), pattern);
    }
    return pattern;
  }

  private static Matcher matcher(UTF8String text, UTF8String regex) {
    return pattern(regex).matcher(new Text(text));
  }

  public static boolean rlike(UTF8String text, UTF8String regex) {
    return matcher(text, regex).find();
  }

  public static boolean like(UTF8String text, UTF8String pattern, UTF8String escape) {
    String regex = StringUtils.escapeLikeRegex(pattern.toString(), escape.toString().charAt(0));
    return matcher(text, UTF8String.fromString(regex)).matches();
  }

  /** As Spark's function: {@code position} is that of the first character, from 1 on. */
  public static UTF8String replace(
      UTF8String text, UTF8String regex, UTF8String replacement, int position) {
    Text source = new Text(text);
    int start = position - 1;
    if (start != 0 && start >= source.length()) {
      return text;
    }
    Matcher matcher = pattern(regex).matcher(source).region(start, source.length());
    StringBuilder made = new StringBuilder();
    String by = replacement.toString();
    while (matcher.find()) {
      matcher.appendReplacement(made, by);
      check(made.length());
    }
    return UTF8String.fromString(matcher.appendTail(made).toString());
  }

  public static UTF8String extract(UTF8String text, UTF8String regex, int group) {
    Matcher matcher = matcher(text, regex);
    return matcher.find() ? group(matcher, "regexp_extract", group) : UTF8String.EMPTY_UTF8;
  }

  public static ArrayData extractAll(UTF8String text, UTF8String regex, int group) {
    Matcher matcher = matcher(text, regex);
    List<UTF8String> found = new ArrayList<>();
    while (matcher.find()) {
      found.add(group(matcher, "regexp_extract_all", group));
    }
    return new GenericArrayData(found.toArray());
  }

  private static UTF8String group(Matcher matcher, String function, int group) {
    RegExpExtractBase$.MODULE$.checkGroupIndex(function, matcher.groupCount(), group);
    String found = matcher.group(group);
    return found == null ? UTF8String.EMPTY_UTF8 : UTF8String.fromString(found);
  }

  public static int inStr(UTF8String text, UTF8String regex, int group) {
    Matcher matcher = matcher(text, regex);
    return matcher.find() ? matcher.start() + 1 : 0;
  }

  public static ArrayData split(UTF8String text, UTF8String regex, int limit) {
    if (regex.numBytes() == 0) {
      return new GenericArrayData(text.split(regex, limit));
    }
    String[] parts = pattern(regex).split(new Text(text), limit == 0 ? -1 : limit);
    Object[] made = new Object[parts.length];
    for (int i = 0; i < parts.length; i++) {
      made[i] = UTF8String.fromString(parts[i]);
    }
    return new GenericArrayData(made);
  }

  public static UTF8String repeat(UTF8String text, int times) {
    check((long) text.numBytes() * times);
    return text.repeat(times);
  }

  public static UTF8String space(int length) {
    check(length);
    return UTF8String.blankString(Math.max(0, length));
  }

  public static UTF8String lpad(UTF8String text, int length, UTF8String pad) {
    check((long) length * Math.max(1, pad.numBytes()));
    return text.lpad(length, pad);
  }

  public static UTF8String rpad(UTF8String text, int length, UTF8String pad) {
    check((long) length * Math.max(1, pad.numBytes()));
    return text.rpad(length, pad);
  }

  private static void check(long bytes) {
    if (bytes > MOST_BYTES) {
      throw new Exceeded(
          "becomes too large",
          bytes + " bytes are asked for, and no broker takes more than " + MOST_BYTES);
    }
  }
}
