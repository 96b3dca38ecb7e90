package replication.transform;

import java.io.Serial;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.ArrayAggregate;
import org.apache.spark.sql.catalyst.expressions.ArrayBinaryLike;
import org.apache.spark.sql.catalyst.expressions.ArrayDistinct;
import org.apache.spark.sql.catalyst.expressions.ArrayInsert;
import org.apache.spark.sql.catalyst.expressions.ArrayJoin;
import org.apache.spark.sql.catalyst.expressions.ArrayRepeat;
import org.apache.spark.sql.catalyst.expressions.ArrayTransform;
import org.apache.spark.sql.catalyst.expressions.ArraysOverlap;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.Concat;
import org.apache.spark.sql.catalyst.expressions.ConcatWs;
import org.apache.spark.sql.catalyst.expressions.ElementAt;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.FormatNumber;
import org.apache.spark.sql.catalyst.expressions.FormatString;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.GetArrayItem;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.HigherOrderFunction;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.LambdaFunction;
import org.apache.spark.sql.catalyst.expressions.Levenshtein;
import org.apache.spark.sql.catalyst.expressions.Like;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.MapZipWith;
import org.apache.spark.sql.catalyst.expressions.NamedLambdaVariable;
import org.apache.spark.sql.catalyst.expressions.RLike;
import org.apache.spark.sql.catalyst.expressions.RegExpExtract;
import org.apache.spark.sql.catalyst.expressions.RegExpExtractAll;
import org.apache.spark.sql.catalyst.expressions.RegExpExtractBase$;
import org.apache.spark.sql.catalyst.expressions.RegExpInStr;
import org.apache.spark.sql.catalyst.expressions.RegExpReplace;
import org.apache.spark.sql.catalyst.expressions.Sequence;
import org.apache.spark.sql.catalyst.expressions.Size;
import org.apache.spark.sql.catalyst.expressions.StringLPad;
import org.apache.spark.sql.catalyst.expressions.StringRPad;
import org.apache.spark.sql.catalyst.expressions.StringRepeat;
import org.apache.spark.sql.catalyst.expressions.StringReplace;
import org.apache.spark.sql.catalyst.expressions.StringSpace;
import org.apache.spark.sql.catalyst.expressions.StringSplit;
import org.apache.spark.sql.catalyst.expressions.TransformKeys;
import org.apache.spark.sql.catalyst.expressions.TransformValues;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.expressions.UnsafeMapData;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.ZipWith;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.catalyst.util.StringUtils;
import org.apache.spark.sql.catalyst.util.TypeUtils;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.CalendarIntervalType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.YearMonthIntervalType;
import org.apache.spark.unsafe.types.ByteArray;
import org.apache.spark.unsafe.types.CalendarInterval;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's functions that one record can let run for ever, or ask for all memory, with an end.
 *
 * <p>Java's patterns cannot be interrupted, but the text can that they look at, and so can lambdas.
 * The end is a number of looks, for all of an evaluation, and not a time, so that the same record
 * fails wherever it is evaluated.
 */
public final class Bounded {
  static final String POSSESSIVE =
      "Write possessive quantifiers, such as [^\"\\\\]++, which do not try again what has matched";

  private static final long MOST_LOOKS = 200_000_000; // a few seconds
  private static final long MOST_BYTES = 100 << 20; // a broker's socket.request.max.bytes
  private static final int MOST_PATTERNS = 32;
  private static final long BYTES_OF_ONE = 16; // an element with what leads to it
  private static final long BYTES_OF_LOOK = 16; // what is gone through while a pattern looks once
  private static final long LOOKS_OF_CALL = 32; // of a lambda
  private static final double MICROS_PER_DAY = 86_400e6;
  private static final int DAYS_PER_MONTH = 28; // as Spark has it
  private static final Pattern WIDTHS = Pattern.compile("%[-#+ 0,(<$.\\d]++");
  private static final Literal NONE = new Literal(null, DataTypes.StringType);
  private static final ThreadLocal<Spent> SPENT = ThreadLocal.withInitial(Spent::new);

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

  /** What one evaluation has asked for so far. */
  private static final class Spent {
    long kept; // bytes
    long looks;
  }

  /** Called before each evaluation: what one asks for is counted from here on. */
  public static void begin() {
    Spent spent = SPENT.get();
    spent.kept = 0;
    spent.looks = 0;
  }

  /**
   * The same expression with an end in each part that needs one.
   *
   * <p>A step before, which begins its own count, is never within a lambda: a step asks for each
   * part more than once, also whether it is NULL, and Spark then makes the part before it.
   */
  static Expression of(Expression expression) {
    if (expression instanceof Guarded) { // of a step before, which does this itself
      return expression;
    }
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
    } else if (at instanceof StaticInvoke invoke && invoke.staticObject() == ByteArray.class) {
      boolean pads = List.of("lpad", "rpad").contains(invoke.functionName());
      return pads ? invoke(invoke.functionName(), at.dataType(), parts, true) : at;
    } else if (at instanceof Concat) {
      return sized(at, false);
    } else if (at instanceof HigherOrderFunction) {
      return withBodies(at, parts);
    }
    return asked(at, parts);
  }

  /** The same with a look at what an expression is given, where that says how much it makes. */
  private static Expression asked(Expression at, List<Expression> parts) {
    if (at instanceof Sequence) {
      return sequence(at, parts);
    } else if (at instanceof ArrayRepeat) {
      Expression element = parts.get(0);
      boolean isSmall = CodeGenerator.isPrimitiveType(element.dataType());
      return checked(at, 1, "times", List.of(orZero(parts.get(1)), isSmall ? NONE : element));
    } else if (at instanceof ArrayInsert) {
      return checked(at, 1, "elements", List.of(orZero(parts.get(1))));
    } else if (at instanceof FormatNumber
        && parts.get(1).dataType().equals(DataTypes.IntegerType)) {
      return checked(at, 1, "elements", List.of(orZero(parts.get(1))));
    } else if (at instanceof FormatString) {
      return checked(at, 0, "format", List.of(parts.get(0)));
    } else if (at instanceof StringReplace
        && parts.stream().allMatch(part -> part.dataType().equals(DataTypes.StringType))) {
      return checked(at, 0, "replaces", parts);
    } else if (at instanceof ArrayJoin) {
      Expression other = parts.size() > 2 ? parts.get(2) : NONE;
      return checked(at, 1, "joins", List.of(parts.get(0), parts.get(1), other));
    } else if (at instanceof ConcatWs) {
      Expression made = at;
      for (Expression part : parts) {
        if (part.dataType() instanceof ArrayType) {
          made = checked(made, 0, "joins", List.of(part, parts.get(0), NONE));
        }
      }
      return made;
    } else if (at instanceof Levenshtein) {
      Expression most = parts.size() > 2 ? parts.get(2) : new Literal(-1, DataTypes.IntegerType);
      return checked(at, 0, "edits", List.of(parts.get(0), parts.get(1), orZero(most)));
    } else if ((at instanceof ArrayDistinct
            || at instanceof ArrayBinaryLike
            || at instanceof ArraysOverlap)
        && parts.get(0).dataType() instanceof ArrayType array
        && !TypeUtils.typeWithProperEquals(array.elementType())) {
      Expression other = parts.size() > 1 ? parts.get(1) : new Literal(null, array);
      return checked(at, 0, "pairs", List.of(parts.get(0), other));
    }
    return at;
  }

  private static Expression sequence(Expression at, List<Expression> parts) {
    DataType type = parts.get(0).dataType();
    Expression step = parts.size() > 2 ? parts.get(2) : null;
    DataType stepType = step == null ? null : step.dataType();
    boolean isTime = !(type instanceof IntegralType);
    double unit = 1; // of the step in those of the bounds
    if (step == null) {
      step = new Literal(1, DataTypes.IntegerType);
      unit = isTime ? MICROS_PER_DAY : 1;
    } else if (stepType instanceof YearMonthIntervalType) {
      unit = DAYS_PER_MONTH * MICROS_PER_DAY;
    }
    if (type instanceof DateType) {
      unit /= MICROS_PER_DAY;
    }
    Expression of = new Literal(unit, DataTypes.DoubleType);
    String name = stepType instanceof CalendarIntervalType ? "every" : "sequence";
    return checked(at, 1, name, List.of(parts.get(0), parts.get(1), step, of), true);
  }

  private static Expression orZero(Expression number) {
    Expression zero = new Literal(0, DataTypes.IntegerType);
    return new Coalesce(CollectionConverters.asScala(List.of(number, zero)).toSeq());
  }

  private static Expression checked(
      Expression at, int index, String name, List<Expression> arguments) {
    return checked(at, index, name, arguments, false);
  }

  /** The same with a child that is given only after a method of this class has looked. */
  private static Expression checked(
      Expression at, int index, String name, List<Expression> arguments, boolean isNullSafe) {
    List<Expression> parts = new ArrayList<>(CollectionConverters.asJava(at.children()));
    Expression part = parts.get(index);
    Expression look = invoke(name, DataTypes.BooleanType, arguments, isNullSafe);
    parts.set(index, new If(look, part, new Literal(null, part.dataType())));
    return at.withNewChildren(CollectionConverters.asScala(parts).toSeq());
  }

  private static Expression withBodies(Expression at, List<Expression> parts) {
    boolean isKept =
        at instanceof ArrayTransform
            || at instanceof TransformKeys
            || at instanceof TransformValues
            || at instanceof ZipWith
            || at instanceof MapZipWith;
    List<Expression> made = new ArrayList<>();
    for (Expression part : parts) {
      if (part instanceof LambdaFunction lambda) {
        Expression body = lambda.function();
        List<Expression> seen = new ArrayList<>();
        addSeen(body, seen);
        if (isKept || at instanceof ArrayAggregate) {
          body = sized(body, isKept);
        } else { // of all elements together, which are not more than the array
          seen.removeAll(CollectionConverters.asJava(lambda.arguments()));
        }
        Literal none = new Literal(null, body.dataType());
        for (Expression one : seen) {
          body = new If(invoke("seen", DataTypes.BooleanType, List.of(one), false), body, none);
        }
        Expression called = invoke("called", DataTypes.BooleanType, List.of(), false);
        part = new LambdaFunction(new If(called, body, none), lambda.arguments(), lambda.hidden());
      }
      made.add(part);
    }
    return at.withNewChildren(CollectionConverters.asScala(made).toSeq());
  }

  /** Adds what a lambda's body goes through at each call: not what it takes one element of. */
  private static void addSeen(Expression at, List<Expression> seen) {
    List<Expression> parts = CollectionConverters.asJava(at.children());
    boolean isField = at instanceof GetStructField && isReference(parts.get(0));
    if (isField || isReference(at)) {
      if (canGrow(at.dataType()) && !seen.contains(at)) {
        seen.add(at);
      }
    } else if (!(at instanceof LambdaFunction)) { // which counts its own calls
      boolean takesOne =
          at instanceof GetArrayItem || at instanceof ElementAt || at instanceof Size;
      for (Expression part : takesOne ? parts.subList(1, parts.size()) : parts) {
        addSeen(part, seen);
      }
    }
  }

  private static boolean isReference(Expression at) {
    return at instanceof BoundReference || at instanceof NamedLambdaVariable;
  }

  /** The same with a look at the size of its value. */
  private static Expression sized(Expression at, boolean isKept) {
    Expression kept = new Literal(isKept, DataTypes.BooleanType);
    return canGrow(at.dataType()) ? invoke("sized", at.dataType(), List.of(at, kept), true) : at;
  }

  private static boolean canGrow(DataType type) {
    return type instanceof StringType
        || type instanceof BinaryType
        || type instanceof ArrayType
        || type instanceof MapType
        || type instanceof StructType;
  }

  private static Expression call(String name, Expression at, List<Expression> parts) {
    for (Expression part : parts) {
      DataType type = part.dataType();
      if (!type.equals(DataTypes.StringType) && !type.equals(DataTypes.IntegerType)) {
        return at; // strings of a collation, or binary ones
      }
    }
    return invoke(name, at.dataType(), parts, true);
  }

  private static Expression invoke(
      String name, DataType type, List<Expression> arguments, boolean isNullOfNull) {
    return new StaticInvoke(
        Bounded.class,
        type,
        name,
        CollectionConverters.asScala(arguments).toSeq(),
        CollectionConverters.asScala(List.<AbstractDataType>of()).toSeq(),
        isNullOfNull,
        isNullOfNull,
        true,
        Option.empty());
  }

  /** A text that a pattern can look at only so often. */
  private static final class Text implements CharSequence {
    private final String text;
    private final Spent spent = SPENT.get();

    Text(UTF8String text) {
      this.text = text.toString();
    }

    @Override
    public char charAt(int index) {
      if (++spent.looks > MOST_LOOKS) {
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
      limit(made.length());
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

  public static byte[] lpad(byte[] bytes, int length, byte[] pad) {
    check(length);
    return ByteArray.lpad(bytes, length, pad);
  }

  public static byte[] rpad(byte[] bytes, int length, byte[] pad) {
    check(length);
    return ByteArray.rpad(bytes, length, pad);
  }

  public static boolean sequence(double start, double stop, double step, double unit) {
    double elements = step == 0 ? 0 : Math.abs((stop - start) / (step * unit));
    keep((long) (elements * BYTES_OF_ONE));
    return true;
  }

  public static boolean every(double start, double stop, CalendarInterval step, double unit) {
    double days = step.months * DAYS_PER_MONTH + step.days;
    return sequence(start, stop, days * MICROS_PER_DAY + step.microseconds, unit);
  }

  public static boolean times(int count, Object element) {
    keep(Math.max(0, count) * Math.max(BYTES_OF_ONE, size(element)));
    return true;
  }

  public static boolean elements(int count) {
    keep(Math.abs((long) count) * BYTES_OF_ONE);
    return true;
  }

  /** Java's formats make a text as wide, and a number as precise, as they say. */
  public static boolean format(UTF8String format) {
    if (format != null) {
      Matcher matcher = WIDTHS.matcher(format.toString());
      long width = 0;
      while (matcher.find()) {
        for (String number : matcher.group().split("\\D+")) {
          width +=
              number.isEmpty() ? 0 : number.length() > 9 ? MOST_BYTES + 1 : Long.parseLong(number);
        }
      }
      check(width);
    }
    return true;
  }

  public static boolean replaces(UTF8String text, UTF8String search, UTF8String by) {
    if (text == null || search == null || by == null || search.numBytes() == 0) {
      return true;
    }
    long more = (long) by.numBytes() - search.numBytes();
    if (more * (text.numBytes() / search.numBytes()) > MOST_BYTES) { // at most
      String in = text.toString();
      String part = search.toString();
      long made = text.numBytes();
      for (int at = in.indexOf(part); at >= 0; at = in.indexOf(part, at + part.length())) {
        made += more;
      }
      check(made);
    }
    return true;
  }

  public static boolean joins(ArrayData parts, UTF8String delimiter, UTF8String replacement) {
    if (parts != null && delimiter != null) {
      long other = replacement == null ? 0 : replacement.numBytes();
      check(parts.numElements() * (delimiter.numBytes() + other));
    }
    return true;
  }

  public static boolean edits(UTF8String one, UTF8String other, int most) {
    if (one != null && other != null) {
      long wide = most < 0 ? other.numBytes() : Math.min(other.numBytes(), 2L * most + 1);
      spend(one.numBytes() * wide);
    }
    return true;
  }

  /** Spark compares each element with each, where it has no hash of them. */
  public static boolean pairs(ArrayData one, ArrayData other) {
    long all = one == null ? 0 : one.numElements();
    all += other == null ? 0 : other.numElements();
    spend(all * all / 2);
    return true;
  }

  public static boolean called() {
    spend(LOOKS_OF_CALL);
    return true;
  }

  public static boolean seen(Object value) {
    long bytes = 0;
    if (value instanceof ArrayData array && !(value instanceof UnsafeArrayData)) {
      bytes = array.numElements() * BYTES_OF_ONE;
    } else if (value instanceof ArrayBasedMapData map) {
      bytes = map.numElements() * BYTES_OF_ONE;
    } else if (value != null && !(value instanceof GenericInternalRow)) {
      bytes = size(value);
    }
    spend(bytes / BYTES_OF_LOOK);
    return true;
  }

  private static void spend(long looks) {
    Spent spent = SPENT.get();
    spent.looks += Math.min(looks, MOST_LOOKS + 1);
    if (spent.looks > MOST_LOOKS) {
      throw new Exceeded(
          "takes too long",
          "lambdas are called, or values gone through, more often than "
              + MOST_LOOKS
              + " steps allow. Let a lambda see fewer elements, or smaller values");
    }
  }

  public static UTF8String sized(UTF8String value, boolean isKept) {
    look(value, isKept);
    return value;
  }

  public static byte[] sized(byte[] value, boolean isKept) {
    look(value, isKept);
    return value;
  }

  public static ArrayData sized(ArrayData value, boolean isKept) {
    look(value, isKept);
    return value;
  }

  public static MapData sized(MapData value, boolean isKept) {
    look(value, isKept);
    return value;
  }

  public static InternalRow sized(InternalRow value, boolean isKept) {
    look(value, isKept);
    return value;
  }

  private static void look(Object value, boolean isKept) {
    if (isKept) {
      keep(size(value));
    } else {
      check(size(value));
    }
  }

  /** What a value has written out, about; what it has twice counts twice. */
  private static long size(Object value) {
    if (value instanceof UTF8String text) {
      return text.numBytes();
    } else if (value instanceof byte[] bytes) {
      return bytes.length;
    } else if (value instanceof UnsafeArrayData array) {
      return array.getSizeInBytes();
    } else if (value instanceof UnsafeRow row) {
      return row.getSizeInBytes();
    } else if (value instanceof UnsafeMapData map) {
      return map.getSizeInBytes();
    } else if (value instanceof GenericArrayData array) {
      return size(array.array());
    } else if (value instanceof GenericInternalRow row) {
      return size(row.values());
    } else if (value instanceof ArrayBasedMapData map) {
      return size(map.keyArray()) + size(map.valueArray());
    } else if (value instanceof ArrayData array) {
      return array.numElements() * BYTES_OF_ONE;
    }
    return BYTES_OF_ONE;
  }

  private static long size(Object[] values) {
    long bytes = values.length * BYTES_OF_ONE;
    for (int i = 0; i < values.length && bytes <= MOST_BYTES; i++) {
      bytes += size(values[i]);
    }
    return bytes;
  }

  /** Bytes that stay, with others of the same evaluation. */
  private static void keep(long bytes) {
    Spent spent = SPENT.get();
    spent.kept += Math.min(bytes, MOST_BYTES + 1);
    limit(spent.kept);
    check(bytes);
  }

  /** Bytes that are made, and gone through. */
  private static void check(long bytes) {
    limit(bytes);
    spend(Math.max(0, bytes) / BYTES_OF_LOOK);
  }

  private static void limit(long bytes) {
    if (bytes > MOST_BYTES) {
      throw new Exceeded(
          "becomes too large",
          "more than " + MOST_BYTES + " bytes are asked for, which no broker takes");
    }
  }
}
