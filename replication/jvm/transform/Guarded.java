package replication.transform;

import java.io.Serial;
import java.io.Serializable;
import java.util.List;
import java.util.Objects;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry;
import org.apache.spark.sql.catalyst.expressions.ConditionalExpression;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeBlock;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What a transform makes of a part of a record. Where evaluating it throws, or gives NULL where it
 * must not, this throws a {@link TransformFailure}, or notes it: then the value is a struct of what
 * was made and of the failure's text.
 *
 * <p>Its first child is the expression, the others say the record's topic, partition and offset,
 * and whether NULL is a failure. It is conditional for Spark, which would else evaluate what two
 * expressions have in common before either of them, and not in here.
 */
public final class Guarded extends Expression implements ConditionalExpression, Serializable {
  @Serial private static final long serialVersionUID = 1L;

  private static final int ARGUMENTS = 5;

  private final Seq<Expression> children;
  private final String transform;
  private final String part;
  private final boolean isNoted;
  private transient Expression bounded;

  public Guarded(Seq<Expression> children, String transform, String part, boolean isNoted) {
    this.children = children;
    this.transform = transform;
    this.part = part;
    this.isNoted = isNoted;
  }

  /** Gives {@code spark} the functions that throw and note, whose arguments are the children. */
  public static void register(SparkSession spark, String throwing, String noting) {
    FunctionRegistry functions =
        ((org.apache.spark.sql.classic.SparkSession) spark).sessionState().functionRegistry();
    for (String name : List.of(throwing, noting)) {
      functions.createOrReplaceTempFunction(
          name,
          arguments -> {
            List<Expression> given = CollectionConverters.asJava(arguments);
            return new Guarded(
                CollectionConverters.asScala(given.subList(0, ARGUMENTS)).toSeq(),
                given.get(ARGUMENTS).eval(null).toString(),
                given.get(ARGUMENTS + 1).eval(null).toString(),
                name.equals(noting));
          },
          "scala_udf");
    }
  }

  private Expression child(int at) {
    return children.apply(at);
  }

  private Expression bounded() {
    if (bounded == null) {
      bounded = Bounded.of(child(0));
    }
    return bounded;
  }

  @Override
  public DataType dataType() {
    DataType made = child(0).dataType();
    return isNoted ? new StructType().add("made", made).add("failure", DataTypes.StringType) : made;
  }

  @Override
  public boolean nullable() {
    return !isNoted;
  }

  @Override
  public Object eval(InternalRow row) {
    Object made = null;
    TransformFailure failure = null;
    try {
      Bounded.begin();
      made = bounded().eval(row);
    } catch (Throwable e) {
      failure = failure(row, e);
    }
    if (made == null && failure == null && Boolean.TRUE.equals(child(4).eval(row))) {
      failure = failure(row, null);
    }
    if (isNoted) {
      return noted(made, failure);
    }
    if (failure != null) {
      throw failure;
    }
    return made;
  }

  private TransformFailure failure(InternalRow row, Throwable thrown) {
    UTF8String topic = (UTF8String) child(1).eval(row);
    int partition = (Integer) child(2).eval(row);
    long offset = (Long) child(3).eval(row);
    return thrown == null
        ? TransformFailure.ofNull(transform, part, topic, partition, offset)
        : TransformFailure.of(transform, part, topic, partition, offset, thrown);
  }

  /** What is made of a record where failures are noted. */
  public static InternalRow noted(Object made, TransformFailure failure) {
    UTF8String text = failure == null ? null : UTF8String.fromString(failure.getMessage());
    return new GenericInternalRow(new Object[] {failure == null ? made : null, text});
  }

  @Override
  public ExprCode doGenCode(CodegenContext context, ExprCode code) {
    DataType type = child(0).dataType();
    ExprCode made = bounded().genCode(context);
    ExprCode isRequired = child(4).genCode(context);
    String isNull = context.freshName("isNull");
    String value = context.freshName("made");
    String failure = context.freshName("failure");
    String thrown = context.freshName("thrown");
    String boxed =
        CodeGenerator.isPrimitiveType(type)
            ? CodeGenerator.boxedType(type) + ".valueOf(" + value + ")"
            : value;
    String own = TransformFailure.class.getName();
    String text =
        String.join(
            "\n",
            own + " " + failure + " = null;",
            "boolean " + isNull + " = true;",
            declared(type, value),
            "try {",
            Bounded.class.getName() + ".begin();",
            made.code().toString(),
            isNull + " = " + made.isNull() + ";",
            "if (!" + isNull + ") { " + value + " = " + made.value() + "; }",
            "} catch (Throwable " + thrown + ") {",
            isNull + " = true;",
            place(context, failure + " = " + own + ".of", ", " + thrown),
            "}",
            "if (" + isNull + " && " + failure + " == null) {",
            isRequired.code().toString(),
            "if (!(" + isRequired.isNull() + ") && " + isRequired.value() + ") {",
            place(context, failure + " = " + own + ".ofNull", ""),
            "}",
            "}",
            isNoted
                ? String.join(
                    "",
                    "boolean " + code.isNull() + " = false;\n",
                    CodeGenerator.javaType(dataType()) + " " + code.value() + " = ",
                    Guarded.class.getName() + ".noted(",
                    isNull + " ? null : (Object) " + boxed + ", " + failure + ");")
                : String.join(
                    "",
                    "if (" + failure + " != null) { throw " + failure + "; }\n",
                    "boolean " + code.isNull() + " = " + isNull + ";\n",
                    CodeGenerator.javaType(type) + " " + code.value() + " = " + value + ";"));
    return code.copy(
        new CodeBlock(
            CollectionConverters.asScala(List.of(text)).toSeq(),
            CollectionConverters.asScala(
                    List.<org.apache.spark.sql.catalyst.expressions.codegen.JavaCode>of())
                .toSeq()),
        code.isNull(),
        code.value());
  }

  private static String declared(DataType type, String name) {
    String initial = CodeGenerator.defaultValue(type, false);
    return CodeGenerator.javaType(type) + " " + name + " = " + initial + ";";
  }

  /** A call with the record's place, which is looked at nowhere else. */
  private String place(CodegenContext context, String call, String last) {
    StringBuilder codes = new StringBuilder();
    StringBuilder values = new StringBuilder();
    for (int i = 1; i < ARGUMENTS - 1; i++) {
      ExprCode one = child(i).genCode(context);
      codes.append(one.code()).append('\n');
      values.append(", ").append(one.value());
    }
    String name = context.addReferenceObj("transform", transform, "java.lang.String");
    String of = context.addReferenceObj("part", part, "java.lang.String");
    return codes + call + "(" + name + ", " + of + values + last + ");";
  }

  @Override
  public Seq<Expression> children() {
    return children;
  }

  @Override
  public Expression withNewChildrenInternal(IndexedSeq<Expression> children) {
    return new Guarded(children, transform, part, isNoted);
  }

  @Override
  public Seq<Expression> alwaysEvaluatedInputs() {
    return CollectionConverters.asScala(List.<Expression>of()).toSeq();
  }

  @Override
  public ConditionalExpression withNewAlwaysEvaluatedInputs(Seq<Expression> inputs) {
    return this;
  }

  @Override
  public Seq<Seq<Expression>> branchGroups() {
    return CollectionConverters.asScala(List.<Seq<Expression>>of()).toSeq();
  }

  @Override
  public int productArity() {
    return 4;
  }

  @Override
  public Object productElement(int at) {
    return List.of(children, transform, part, isNoted).get(at);
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof Guarded;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Guarded guarded
        && children.equals(guarded.children)
        && transform.equals(guarded.transform)
        && part.equals(guarded.part)
        && isNoted == guarded.isNoted;
  }

  @Override
  public int hashCode() {
    return Objects.hash(children, transform, part, isNoted);
  }
}
